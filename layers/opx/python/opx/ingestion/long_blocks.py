"""Cuts a block that is longer than a window: code at its definitions, else at blank lines, lines, sentences or words.

The order of these is that of LangChain's `RecursiveCharacterTextSplitter`, and the marks of definitions are its own.
Importing it takes up to a second, so this module is imported by the first such block.
"""

from __future__ import annotations

from functools import cache, lru_cache

import tiktoken.registry
from langchain_text_splitters import Language, RecursiveCharacterTextSplitter

from opx.text.tokenizer import cl100k

ENCODING = "opx_cl100k_base"
"""The name by which tiktoken finds the encoding that is installed with us: by its usual name it would be downloaded."""

_ALIASES = (
    "c#=csharp c++=cpp cc=cpp cs=csharp golang=go hs=haskell javascript=js jsx=js mjs=js kt=kotlin md=markdown "
    "protobuf=proto ps1=powershell py=python python3=python rb=ruby rs=rust solidity=sol tex=latex "
    "tsx=ts typescript=ts xml=html"
)
_LANGUAGES = dict(pair.split("=") for pair in _ALIASES.split())
"""LangChain's names of languages, by the others that fences give them."""

_LINES = {"\n\n": r"(?<=\n\n)(?!\n)", "\n": r"(?<=\n)(?!\n)"}
"""Positions behind blank lines and behind lines: tokens end there."""

_PROSE = (*_LINES.values(), r"(?<=[.!?;:…])(?= )|(?<=[。！？；])", r"(?= )")


def first_part(text: str, tokens: int, language: str = "") -> str:
    """The first part, at most `tokens` tokens, of longer text: it ends where the text is best cut.

    `language` is that of a code block, as its fence names it. "" is returned for text that can only be cut within a word.
    """
    parts = _splitter(language.lower(), tokens).split_text(text)
    return parts[0] if len(parts) > 1 else ""


@lru_cache(maxsize=256)
def _splitter(language: str, tokens: int) -> RecursiveCharacterTextSplitter:
    _register_encoding()
    return RecursiveCharacterTextSplitter.from_tiktoken_encoder(
        encoding_name=ENCODING,
        chunk_size=tokens,
        chunk_overlap=0,
        separators=list(_separators(language)),
        is_separator_regex=True,
        keep_separator="start",
        strip_whitespace=False,
    )


@cache
def _register_encoding() -> None:
    tiktoken.registry.ENCODINGS.setdefault(ENCODING, cl100k())


@cache
def _separators(language: str) -> tuple[str, ...]:
    """Patterns of the positions between two pieces, the best first; none has a width, so that no character is lost."""
    try:
        marks = RecursiveCharacterTextSplitter.get_separators_for_language(Language(_LANGUAGES.get(language, language)))
    except ValueError:  # a language without rules, or no code at all
        return _PROSE
    return tuple(dict.fromkeys((*(_beginning(mark) for mark in marks if mark), *_PROSE)))


def _beginning(mark: str) -> str:
    """The position of a separator, behind its line break if it begins with one."""
    if mark in _LINES:
        return _LINES[mark]
    return rf"(?<=\n)(?={mark[1:]})" if mark.startswith("\n") else f"(?={mark})"
