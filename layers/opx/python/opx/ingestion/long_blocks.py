"""Cuts a block that is longer than a window: code before its definitions, else at blank lines, lines, sentences or words."""

from __future__ import annotations

import re
from bisect import bisect_right

from opx.text.tokenizer import count_tokens

_MODIFIERS = (
    "abstract async const data default export extern final inline internal local open override partial private protected "
    "public sealed static unsafe virtual"
)
_DEFINITIONS = (
    "class contract create def define defmacro defmodule defp enum fn fun func function impl "
    "interface library macro message mod module namespace object package procedure provider public private protected "
    "record resource rule service struct sub task trait type typedef union variable void"
)
"""First words of definitions, of the languages that operations read most: of a program, a schema, a stack."""

_MARKS = r"(?:@|#|//|--)[^\n]*\n"
"""A decorator, an annotation or a comment, which stays with the definition below it."""


def _definition(indent: str) -> re.Pattern[str]:
    """Lines that begin a definition, so far indented."""
    modifier = rf"(?:{'|'.join(_MODIFIERS.split())}|pub(?:\([a-z]+\))?)[ \t]+"
    keyword = rf"(?:{'|'.join(_DEFINITIONS.split())})\b"
    shell_function = r"[\w.:-]+[ \t]*\(\)[ \t]*\{"
    start = rf"(?:(?:{modifier})*{keyword}|(?:{modifier})+\w|{shell_function})"
    return re.compile(rf"(?<=\n)(?:{indent}{_MARKS})*{indent}{start}", re.IGNORECASE)


_CODE = (_definition(""), _definition(r"[ \t]+"))
_PROSE = tuple(map(re.compile, (r"(?<=\n\n)(?!\n)", r"(?<=\n)(?!\n)", r"(?<=[.!?;:…])(?= )|(?<=[。！？；])", r"(?= )")))
"""Positions behind blank lines, behind lines, behind sentences, and before words: tokens end there."""


def first_part(text: str, tokens: int, language: str = "") -> str:
    """The first part, at most `tokens` tokens, of longer text: it ends where the text is best cut.

    `language` is that of a code block, as its fence names it. "" is returned for text that can only be cut within a word.
    """
    for cut in (*_CODE, *_PROSE) if language else _PROSE:
        ends = [found.start() for found in cut.finditer(text) if found.start()]
        fitting = bisect_right(ends, tokens, key=lambda end: count_tokens(text[:end]))
        if fitting:
            return text[: ends[fitting - 1]]
    return ""
