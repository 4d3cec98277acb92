"""References to things, written in one way: `namespace:value`.

Everything here is idempotent, so that a reference may pass any number of hands.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from opx.errors import InvalidReferenceError

MAX_BYTES = 400
"""Of a reference in UTF-8. With a scope and what else is in them, keys of the table stay below the 1,024 bytes that a
sort key may have (Amazon DynamoDB, "Constraints in Amazon DynamoDB")."""

MAX_TEXT = 4_000
"""Characters of a text that is taken for a reference; longer ones are something else."""

MAX_NAMESPACE = 40
MAX_EDGE_TYPE = 60

EXACT_NAMESPACES = frozenset((
    "branch", "class", "cve", "document", "file", "function", "method", "module", "runbook",
))  # fmt: skip
"""Names that are given by code or by a path, where `file:file_1.txt` and `file:1.txt` are two things, and ids that are
written with their namespace."""

_NAMESPACE = re.compile(r"[^\W\d_]\w*\Z")
_CONTROLS = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0))))
_SPACES = str.maketrans(dict.fromkeys('|<>[]"`' + _CONTROLS, " "))
_TRAILING = " .,;:!?'"
_LEADING = " '"
_IDENTIFIER = re.compile(r"\d.*|(?=.*\d)[0-9a-f-]{6,}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ACCEPTED = "write namespace:value, such as service:checkout"


def normalised(text: str) -> str:
    """The reference that this text is: `User:John  Smith` -> `user:john smith`.

    Letters are case folded (NFKC), white space is one space, what has a meaning in a relation (`| < > [ ] "` and the
    back quote) is none of a name, and punctuation after it isn't either. A value of over `MAX_BYTES` is cut, and a hash of
    the whole keeps it apart from others. Raises `InvalidReferenceError`, also for an empty namespace or value.
    """
    if len(text) > MAX_TEXT:
        raise InvalidReferenceError(f"{text[:60]!r}... is too long for a reference: {_ACCEPTED}")
    namespace, colon, value = _folded(text).partition(":")
    namespace = re.sub(r"[\s_-]+", "_", namespace).strip("_")
    value = _trimmed(value)
    if not colon or not namespace or not value:
        missing = "value" if namespace and colon else "namespace"
        raise InvalidReferenceError(f"{text[:100]!r} is no reference, it has no {missing}: {_ACCEPTED}")
    if not _NAMESPACE.match(namespace) or len(namespace.encode()) > MAX_NAMESPACE:
        raise InvalidReferenceError(
            f"{text[:100]!r} is no reference: what is before the colon is a word of letters, digits and _ "
            f"with at most {MAX_NAMESPACE} bytes; {_ACCEPTED}"
        )
    return f"{namespace}:{_cut(value, MAX_BYTES - len(namespace.encode()) - 1)}"


def reference(namespace: str, value: str) -> str:
    """The reference of this thing. Raises `InvalidReferenceError`."""
    if ":" in namespace:
        raise InvalidReferenceError(f"{namespace[:100]!r} is no namespace: it has a colon in it; {_ACCEPTED}")
    return normalised(f"{namespace}:{value}")


def canonical_form(key: str) -> str:
    """The same reference without its namespace's name in front of an identifier: `order:order_530798957` ->
    `order:530798957`. Words stay as they are: `service:service-registry` is no `service:registry`."""
    namespace, _, value = key.partition(":")
    if not value.startswith(namespace) or namespace in EXACT_NAMESPACES:
        return key
    rest = re.sub(f"(?:{re.escape(namespace)}[_ -]+)+", "", value, count=1)
    return f"{namespace}:{rest}" if _IDENTIFIER.fullmatch(rest) else key


def edge_type(text: str) -> str:
    """The type of an edge in small letters with underscores: `Depends On`, `dependsOn` and `DEPENDS-ON` ->
    `depends_on`. Raises `InvalidReferenceError`, also for letters that aren't of `a-z`."""
    words = re.sub(r"[\W_]+", "_", _folded(_CAMEL.sub("_", text[:MAX_TEXT]))).strip("_")
    if not words or not words.isascii() or len(words) > MAX_EDGE_TYPE:
        raise InvalidReferenceError(
            f"{text[:100]!r} is no type of a relation: write a word or two such as depends_on, "
            f"in at most {MAX_EDGE_TYPE} letters of a-z, digits and underscores"
        )
    return words


def _folded(text: str) -> str:
    """By Unicode's NFKC and case folding, without invisible characters and halves of surrogate pairs, in single spaces."""
    if not text.isascii():
        shown = "".join(character for character in text if unicodedata.category(character) not in ("Cf", "Cs"))
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())
    return " ".join(text.lower().translate(_SPACES).split())


def _trimmed(value: str) -> str:
    """Without punctuation that the sentence around it has left, and a bracket that was opened before it."""
    value = value.lstrip(_LEADING).rstrip(_TRAILING)
    while value.endswith(")") and value.count(")") > value.count("("):
        value = value[:-1].rstrip(_TRAILING)
    return value


def _cut(value: str, most: int) -> str:
    encoded = value.encode()
    if len(encoded) <= most:
        return value
    mark = "~" + hashlib.sha256(encoded).hexdigest()[:16]
    return encoded[: most - len(mark)].decode(errors="ignore").rstrip() + mark
