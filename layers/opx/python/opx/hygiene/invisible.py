"""Finds and removes characters that people don't see and that models read.

Tag characters (U+E0000 to U+E007F) repeat ASCII invisibly; their one use today is in flags of three regions, after a black
flag (Unicode Technical Standard 51, annex C). Variation selectors in a row have no meaning, and can carry bytes.
"""

from __future__ import annotations

import re

_FLAG = "\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f"
_UNSEEN = "[\U000e0000-\U000e007f]+|[\U000e0100-\U000e01ef]{2,}|[\ufe00-\ufe0f]{3,}"
_REMOVED = re.compile(f"{_FLAG}|({_UNSEEN})")
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\u180e\u00ad"
_HIDDEN = re.compile("[\u200b-\u200d\u2060-\u2064\ufeff\u180e]{8,}")
_SPLIT_WORD = re.compile("[A-Za-z](?:[\u200b\u2060\ufeff\u180e][A-Za-z]){3,}")
_OVERRIDES = re.compile("[\u202d\u202e]")
_RIGHT_TO_LEFT = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_BLANK = {
    ord(character): None for character in (*_ZERO_WIDTH, *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
}


def removed(text: str) -> tuple[str, int]:
    """Returns the text without invisible characters, and how many were removed."""
    if text.isascii() or not _REMOVED.search(text):
        return text, 0
    gone = 0

    def take(match: re.Match[str]) -> str:
        nonlocal gone
        if match[1] is None:
            return match[0]
        gone += len(match[1])
        return ""

    return _REMOVED.sub(take, text), gone


def blanked(text: str) -> str:
    """Returns the text without zero-width characters and direction marks, for searching."""
    return text.translate(_BLANK)


def hidden_text(text: str) -> tuple[int, int] | None:
    """The span with more zero-width characters, or more regularly within a word, than any script needs."""
    match = _HIDDEN.search(text) or _SPLIT_WORD.search(text)
    return match.span() if match else None


def overridden(text: str) -> tuple[int, int] | None:
    """The span in which the direction of text is overridden, in a line without any right-to-left script."""
    match = None if _RIGHT_TO_LEFT.search(text) else _OVERRIDES.search(text)
    return (match.start(), len(text)) if match else None
