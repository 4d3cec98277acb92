"""Estimates the number of tokens of a text without a tokenizer, whose tables take a function 0.2 s to load."""

from __future__ import annotations

import math

_PUNCTUATION = "`|/-_.,:;=\"'(){}[]<>$*#+&%!?@\\~^"
_DIGITS = "0123456789"


def estimated_tokens(text: str) -> int:
    """About how many cl100k tokens a text has. Fitted to 20,000 blocks of runbooks by least squares: nine of ten are
    within 20 %, and all together within 2 %."""
    marks = sum(map(text.count, _PUNCTUATION))
    digits = sum(map(text.count, _DIGITS))
    wide = len(text.encode("utf-8", "surrogatepass")) - len(text)
    return math.ceil(0.38 * len(text.split()) + 0.64 * marks + 0.126 * len(text) + 0.51 * digits + 0.65 * wide)
