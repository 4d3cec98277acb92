"""What somebody wrote in a message, apart from what the message answers and how it is signed."""

from __future__ import annotations

import re

from opx.extraction.markdown import heading, plain

EARLIER = "Earlier messages"
_LEVEL = 2
_MARK_OF_SIGNATURE = "-- "
"""With the blank (RFC 3676, 4.3): two dashes alone may be a line of what was written."""
_LONGEST_SIGNATURE = 12
_QUOTED = re.compile(r"[ \t]*>")
_INTRODUCTION = re.compile(
    r"[^\n]{0,200}(?:wrote|schrieb|a écrit|escribió|ha scritto)\s*:?\s*\Z"
    r"|-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht)\s*-{2,}\s*\Z",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"(?mi)^-{2,}\s*(?:original message|ursprüngliche nachricht)\s*-{2,}\s*$|^_{20,}\s*$")


def body_markdown(text: str, html: str) -> str:
    """The message as Markdown; what it answers comes under a heading of its own, a signature at the end goes."""
    if not text.strip():
        from opx.extraction.html import markdown_of

        return markdown_of(html)
    text = text.replace("\r\n", "\n").replace("\r", "\n").rstrip() + "\n"
    written, earlier = _split(text)
    written = _unsigned(written).strip()
    parts = [plain(written)]
    if earlier:
        parts += [heading(_LEVEL, EARLIER) if written else "", plain(_unquoted(earlier))]
    return "\n\n".join(part for part in parts if part)


def _unsigned(text: str) -> str:
    """The text without a signature: a few lines at its end, after one of two dashes and a blank."""
    lines = text.rstrip().split("\n")
    for at in range(len(lines) - 1, max(-1, len(lines) - 2 - _LONGEST_SIGNATURE), -1):
        if lines[at] == _MARK_OF_SIGNATURE:
            return "\n".join(lines[:at])
    return text


def _split(text: str) -> tuple[str, str]:
    """What was written, and what is quoted below it to the end. Quotations in between stay: answers refer to them."""
    separator = _SEPARATOR.search(text)
    if separator and text[: separator.start()].strip():
        return text[: separator.start()], text[separator.end() :].strip()
    lines = text.splitlines()
    end = len(lines)
    while end and (_QUOTED.match(lines[end - 1]) or not lines[end - 1].strip()):
        end -= 1
    quoted = "\n".join(lines[end:]).strip()
    if not quoted:
        return text, ""
    for size in (1, 2):  # `On ..., somebody wrote:` may take two lines
        if end >= size and _INTRODUCTION.match(" ".join(lines[end - size : end])):
            return "\n".join(lines[: end - size]), "\n".join([*lines[end - size : end], "", quoted])
    return "\n".join(lines[:end]), quoted


def _unquoted(text: str) -> str:
    return "\n".join(re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line) for line in text.splitlines()).strip()
