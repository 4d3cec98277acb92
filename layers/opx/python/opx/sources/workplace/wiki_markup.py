"""Jira's wiki markup, in which Data Center keeps descriptions and comments, as Markdown.

Notation as in Atlassian's page "Text Formatting Notation Help". What is no markup stays as it is.
"""

from __future__ import annotations

import re

from opx.sources.markdown import fenced, table

_CODE = re.compile(r"\{(code|noformat)(?::([^{}\n]{0,300}))?\}")
_HEADING = re.compile(r"h([1-6])\.[ \t]+(.*)")
_ITEM = re.compile(r"([*#]+|-)[ \t]+(.*)")
_PANEL = re.compile(r"\{(panel|quote|info|note|tip|warning)(?::([^{}\n]{0,300}))?\}")
_COLOUR = re.compile(r"\{(?:color|anchor)(?::[^{}\n]{0,300})?\}")
_LINK = re.compile(r"\[([^\[\]|\n]{0,500})\|([^\[\]|\n]{1,2000})(?:\|[^\[\]\n]{0,500})?\]")
_BARE_LINK = re.compile(r"\[(https?://[^\[\]\s]{1,2000})\]")
_MENTION = re.compile(r"\[~(?:accountid:)?([^\[\]\n]{1,200})\]")
_MONOSPACE = re.compile(r"\{\{([^{}\n]{1,1000})\}\}")
_BOLD = re.compile(r"(?<![\w*\\])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_STRIKE = re.compile(r"(?<![\w-])-(?=\S)([^-\n]+?)(?<=\S)-(?![\w-])")
_IMAGE = re.compile(r"!([^!|\s][^!|\n]*?)(?:\|[^!\n]*)?!")


def wiki_markdown(text: str) -> str:
    """The Markdown of a text. Code is taken over as it is, between fences; one that nothing closes is no code."""
    parts: list[str] = []
    at = 0
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    while opening := _CODE.search(text, at):
        closing = f"{{{opening[1]}}}"
        end = text.find(closing, opening.end())
        if end < 0:  # nor does anything close a later one
            break
        code = text[opening.end() : end]
        parts += [_prose(text[at : opening.start()]), fenced(code, _language(opening[1], opening[2] or ""))]
        at = end + len(closing)
    parts.append(_prose(text[at:]))
    return "\n\n".join(part.strip("\n") for part in parts if part.strip())


def _language(kind: str, parameters: str) -> str:
    first = parameters.partition("|")[0]
    return first if kind == "code" and "=" not in first else ""


def _prose(text: str) -> str:
    lines: list[str] = []
    rows: list[list[str]] = []
    for line in text.split("\n"):
        if line.lstrip().startswith("|"):
            rows.append(_cells(line))
            continue
        if rows:
            lines += ["", table(rows), ""]
            rows = []
        lines.append(_line(line))
    return "\n".join([*lines, "", table(rows)] if rows else lines)


def _cells(line: str) -> list[str]:
    """`||head||head||` or `|cell|cell|`; a link's own bar does not end a cell."""
    inner = _LINK.sub(_link, line.strip()).replace("||", "|").strip("|")
    return [_inline(cell) for cell in inner.split("|")]


def _line(line: str) -> str:
    heading = _HEADING.match(line.lstrip())
    if heading:
        return "#" * int(heading[1]) + " " + _inline(heading[2])
    item = _ITEM.match(line.lstrip())
    if item:
        return "  " * (len(item[1]) - 1) + ("1. " if item[1][-1] == "#" else "- ") + _inline(item[2])
    if line.startswith("bq. "):
        return "> " + _inline(line[4:])
    return _inline(line)


def _inline(text: str) -> str:
    text = _PANEL.sub(_panel, _COLOUR.sub("", text))
    text = _MONOSPACE.sub(r"`\1`", text)
    text = _MENTION.sub(r"@\1", text)
    text = _BARE_LINK.sub(r"\1", _LINK.sub(_link, text))
    text = _IMAGE.sub(r"[image: \1]", text)
    return _STRIKE.sub(r"~~\1~~", _BOLD.sub(r"**\1**", text))


def _link(match: re.Match[str]) -> str:
    label, address = match[1].strip(), match[2].strip()
    if not address.startswith(("http://", "https://")):
        return label or address
    return f"{label} ({address})" if label and label != address else address


def _panel(match: re.Match[str]) -> str:
    """Only the title of a panel is kept: where it ends is told by the same word."""
    title = re.search(r"title=([^|}]*)", match[2] or "")
    return f"**{title[1].strip()}**" if title and title[1].strip() else ""
