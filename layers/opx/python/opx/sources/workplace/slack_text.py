"""Slack's markup (mrkdwn) as Markdown, with names instead of ids.

Notation as in Slack's pages "Formatting message text" and "Formatting with mrkdwn".
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from opx.sources.markdown import fenced, nested

_CODE = re.compile(r"```(.*?)```", re.DOTALL)
_INLINE_CODE = re.compile(r"(`[^`\n]+`)")
_REFERENCE = re.compile(r"<([@#!]?)([^<>|\n]+)(?:\|([^<>\n]*))?>")
_BOLD = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]+?)(?<=\S)\*(?![\w*])")
_ITALIC = re.compile(r"(?<![\w_])_(?=\S)([^_\n]+?)(?<=\S)_(?![\w_])")
_STRIKE = re.compile(r"(?<![\w~])~(?=\S)([^~\n]+?)(?<=\S)~(?![\w~])")
_BULLET = re.compile(r"^[•◦▪] ?", re.MULTILINE)


def slack_markdown(text: str, users: Mapping[str, str], channels: Mapping[str, str], under: int) -> str:
    """The Markdown of a message, whose headings (Slack has none) are below level `under`."""
    parts: list[str] = []
    at = 0
    for match in _CODE.finditer(text):
        parts += [_prose(text[at : match.start()], users, channels), fenced(_plain(match[1], users, channels))]
        at = match.end()
    parts.append(_prose(text[at:], users, channels))
    return nested("\n\n".join(part.strip("\n") for part in parts if part.strip()), under)


def _prose(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    pieces = _INLINE_CODE.split(text)
    shown = [
        _plain(piece, users, channels) if number % 2 else _marked(piece, users, channels)
        for number, piece in enumerate(pieces)
    ]
    return "".join(shown)


def _marked(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    text = _STRIKE.sub(r"~~\1~~", _ITALIC.sub(r"*\1*", _BOLD.sub(r"**\1**", text)))
    return _plain(_BULLET.sub("- ", text), users, channels)


def _plain(text: str, users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    """References by name, and `&lt;` and the like as what they stand for."""
    return html.unescape(_REFERENCE.sub(lambda match: _named(match, users, channels), text))


def _named(match: re.Match[str], users: Mapping[str, str], channels: Mapping[str, str]) -> str:
    sign, value, label = match[1], match[2], (match[3] or "").strip()
    if sign == "@":
        return "@" + (users.get(value) or label or value)
    if sign == "#":
        return "#" + (channels.get(value) or label or value)
    if sign == "!":
        return label or "@" + value.partition("^")[0]
    return f"{label} ({value})" if label and label != value else value
