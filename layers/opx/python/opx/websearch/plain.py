"""Snippets as plain text: engines mark what they found, and pages may have anything in their titles."""

from __future__ import annotations

import html
import re

MAX_TEXT = 1500
MAX_TITLE = 300
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9-]*(?:\s[^<>]*)?/?>")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def plain_text(markup: str, limit: int = MAX_TEXT) -> str:
    """Text without tags and entities, in one line, cut to `limit` characters."""
    text = html.unescape(_TAG.sub("", markup[: 4 * limit]))
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
