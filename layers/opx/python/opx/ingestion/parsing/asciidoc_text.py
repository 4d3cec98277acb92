"""What stands within a line of AsciiDoc: attributes, links, images, marks."""

from __future__ import annotations

import re
from collections.abc import Mapping

MAX_VALUE = 10_000
"""Characters of a line after its attributes are put in: attributes of attributes would multiply."""

_REFERENCE = re.compile(r"(\\?)\{([A-Za-z0-9_][\w-]{0,100})\}")
_BUILT_IN = {
    "nbsp": " ",
    "zwsp": "",
    "empty": "",
    "sp": " ",
    "plus": "+",
    "lt": "<",
    "gt": ">",
    "amp": "&",
    "vbar": "|",
}
_LINK = re.compile(
    r"(?:link:|mailto:|xref:)?((?:https?|ftp|irc)://[^\s\[\]<>\"]{1,500}|(?<=link:)[^\s\[\]]{1,500})\[([^\[\]]{0,500})\]"
)
_XREF = re.compile(r"xref:([^\s\[\]]{1,500})\[([^\[\]]{0,500})\]")
_CROSS = re.compile(r"<<([^<>,\n]{1,300})(?:,([^<>\n]{1,300}))?>>")
_IMAGE = re.compile(r"image::?([^\s\[\]:][^\[\]\n]{0,500})\[([^\[\]\n]{0,500})\]")
_MACRO = re.compile(r"\b(?:kbd|btn|menu|footnote|pass|stem|icon):[^\s\[\]]{0,100}\[([^\[\]\n]{0,500})\]")
_ANCHOR = re.compile(r"\[\[[^\[\]\n]{1,200}\]\]|\[#[^\[\]\n]{1,200}\](?=[`*_#\w])")
_MONOSPACE = re.compile(r"(?<![\w`])`\+?([^`\n]{1,500}?)\+?`(?![\w`])")
_BOLD = re.compile(r"(?<![\w*])\*(\S(?:[^*\n]{0,500}?\S)?)\*(?![\w*])")
_HARD_BREAK = re.compile(r" \+\Z")


def with_attributes(text: str, attributes: Mapping[str, str]) -> str:
    """`{name}` replaced, once, where the name is known; the rest stays."""
    if "{" not in text:
        return text
    room = MAX_VALUE

    def value(match: re.Match[str]) -> str:
        nonlocal room
        known = attributes.get(match[2].lower(), _BUILT_IN.get(match[2].lower()))
        if match[1] or known is None or len(known) > room:
            return match[0].lstrip("\\")
        room -= len(known)
        return known

    return _REFERENCE.sub(value, text)


def inline(text: str) -> str:
    """Markdown of one line: links as `text (address)`, images as their description."""
    text = _ANCHOR.sub("", _HARD_BREAK.sub("", text))
    if "[" in text:
        text = _IMAGE.sub(lambda match: _first(match[2]) or match[1], text)
        text = _LINK.sub(lambda match: _linked(match[1], _first(match[2])), text)
        text = _XREF.sub(lambda match: _first(match[2]) or match[1], text)
        text = _MACRO.sub(r"\1", text)
    text = _CROSS.sub(lambda match: (match[2] or match[1]).strip(), text)
    return _BOLD.sub(r"**\1**", _MONOSPACE.sub(r"`\1`", text))


def _linked(address: str, shown: str) -> str:
    return f"{shown} ({address})" if shown else address


def _first(values: str) -> str:
    """The text among the values in brackets, without `window=_blank` and the like."""
    quoted = re.match(r'"([^"]*)"', values)
    return (
        quoted[1]
        if quoted
        else re.split(r",\s*\w+=", values.removesuffix("^"), maxsplit=1)[0].strip().removesuffix("^")
    )
