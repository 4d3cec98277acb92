"""A question without the values in it: which pod it was, how many per cent, since how many minutes.

Alerts are full of them. They say where a problem is, not which one, and both legs waste attention on them: the embedding
of a sentence with a pod's name is as much about the name.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_SHELL = ".,:;()[]{}%\"'`"
_DIGIT = re.compile(r"\d")
_MEANT = re.compile(r"[A-Za-z]+\d{1,3}|[1-5][xX]{2}|[1-5]\d\d|v\d[\d.]*|\d+[A-Za-z]{3,}\w*")
"""What has digits and is a word all the same: IPv4, p99, 5xx, 503, v1.2, 3scale."""

LEAST_WORDS = 3
"""A question that would have fewer is left as it is."""


def focused(text: str, known: Callable[[str], bool]) -> str:
    """The text without values: words with digits, and `namespace/name` pairs.

    What has a meaning stays: codes, versions, and identifiers with underscores that are `known`, as some document has
    them. So does every question that is hardly more than its values.
    """
    kept = [word for word in text.split() if not _is_value(word.strip(_SHELL), known)]
    return " ".join(kept) if len(kept) >= LEAST_WORDS else text


def _is_value(word: str, known: Callable[[str], bool]) -> bool:
    if "/" in word and "://" not in word and not word.startswith("/"):
        return True
    if not _DIGIT.search(word) or _MEANT.fullmatch(word):
        return False
    return not ("_" in word and known(word))
