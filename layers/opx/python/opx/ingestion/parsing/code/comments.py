"""Comments to the text in them."""

from __future__ import annotations

import inspect
import re

_BEGIN = re.compile(r"[ \t]*(?:/\*+!?|//[/!]?|#+!?|--+|<#|\*(?!/)(?!\*)) ?")
_END = re.compile(r"[ \t]*(?:\*+/|#>)[ \t]*\Z")
_QUOTES = re.compile(r"[A-Za-z]{0,2}(\"\"\"|'''|\"|')")


def comment_text(comments: list[str]) -> str:
    """The lines of comments that follow each other, without their marks."""
    lines = [_stripped(line) for comment in comments for line in comment.rstrip("\n").split("\n")]
    return inspect.cleandoc("\n".join(lines))


def docstring_text(literal: str) -> str:
    """What stands in a string literal, without its indentation."""
    opening = _QUOTES.match(literal)
    if not opening:
        return literal
    return inspect.cleandoc(literal[opening.end() :].removesuffix(opening[1]))


def _stripped(line: str) -> str:
    return _BEGIN.sub("", _END.sub("", line), count=1) if _BEGIN.match(line) else _END.sub("", line)
