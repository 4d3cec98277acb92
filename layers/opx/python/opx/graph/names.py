"""Normalises references of nodes (`namespace:value`) and types of edges.

All functions are idempotent: a reference may be normalised any number of times.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from opx.errors import InvalidReferenceError

MAX_BYTES = 400
"""Of a reference in UTF-8. With a scope and their other parts, keys of the table stay below the 1,024 bytes that a
sort key may have (Amazon DynamoDB, "Constraints in Amazon DynamoDB")."""

MAX_TEXT = 4_000
"""Characters of a string that is read as a reference; longer strings are refused."""

MAX_NAMESPACE = 40
MAX_EDGE_TYPE = 60

EXACT_NAMESPACES = frozenset((
    "branch", "class", "cve", "document", "file", "function", "method", "module", "runbook",
))  # fmt: skip
"""Namespaces of names from code or paths, where `file:file_1.txt` and `file:1.txt` are two nodes, and of ids that are
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
    """The normalised reference: `User:John  Smith` -> `user:john smith`.

    Letters are case folded (NFKC), white space becomes one space, and the syntax of relations (`| < > [ ] "` and the back
    quote) and trailing punctuation are removed. A value of over `MAX_BYTES` is cut, with a hash of the whole value added
    to keep it unique. Raises `InvalidReferenceError`, also for an empty namespace or value.
    """
    if len(text) > MAX_TEXT:
        raise InvalidReferenceError(f"{text[:60]!r}... is too long for a reference: {_ACCEPTED}")
    namespace, colon, value = _folded(text).partition(":")
    namespace = re.sub(r"[\s_-]+", "_", namespace).strip("_")
    value = _trimmed(value)
    if not colon or not namespace or not value:
        missing = "value" if namespace and colon else "namespace"
        raise InvalidReferenceError(f"{text[:100]!r} is not a reference, it has no {missing}: {_ACCEPTED}")
    if not _NAMESPACE.match(namespace) or len(namespace.encode()) > MAX_NAMESPACE:
        raise InvalidReferenceError(
            f"{text[:100]!r} is not a reference: before the colon goes a word of letters, digits and _ "
            f"with at most {MAX_NAMESPACE} bytes; {_ACCEPTED}"
        )
    return f"{namespace}:{_cut(value, MAX_BYTES - len(namespace.encode()) - 1)}"


def reference(namespace: str, value: str) -> str:
    """The normalised reference of a namespace and a value. Raises `InvalidReferenceError`."""
    if ":" in namespace:
        raise InvalidReferenceError(f"{namespace[:100]!r} is not a namespace: it contains a colon; {_ACCEPTED}")
    return normalised(f"{namespace}:{value}")


def canonical_form(key: str) -> str:
    """The same reference without its namespace's name in front of an identifier: `order:order_530798957` ->
    `order:530798957`. Words stay as they are: `service:service-registry` is no `service:registry`; but for products, whose
    names in CPE form are joined by `_`: `product:product_lego` is `product:lego`."""
    namespace, _, value = key.partition(":")
    if not value.startswith(namespace) or namespace in EXACT_NAMESPACES:
        return key
    if namespace == "product" and (rest := value.removeprefix("product_")) not in ("", value):
        return f"product:{rest}"
    rest = re.sub(f"(?:{re.escape(namespace)}[_ -]+)+", "", value, count=1)
    return f"{namespace}:{rest}" if _IDENTIFIER.fullmatch(rest) else key


def edge_type(text: str) -> str:
    """The normalised type of an edge in lower case with underscores: `Depends On`, `dependsOn` and `DEPENDS-ON` ->
    `depends_on`. Raises `InvalidReferenceError`, also for letters that aren't of `a-z`."""
    words = re.sub(r"[\W_]+", "_", _folded(_CAMEL.sub("_", text[:MAX_TEXT]))).strip("_")
    if not words or not words.isascii() or len(words) > MAX_EDGE_TYPE:
        raise InvalidReferenceError(
            f"{text[:100]!r} is not an edge type: write a word or two such as depends_on, "
            f"in at most {MAX_EDGE_TYPE} letters of a-z, digits and underscores"
        )
    return words


def _folded(text: str) -> str:
    """The text by Unicode's NFKC and case folding, without format and surrogate characters, with single spaces."""
    if not text.isascii():
        shown = "".join(character for character in text if unicodedata.category(character) not in ("Cf", "Cs"))
        text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", shown).casefold())
    return " ".join(text.lower().translate(_SPACES).split())


def _trimmed(value: str) -> str:
    """The value without punctuation of the sentence around it, and without a closing bracket that it doesn't open."""
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
