"""References from what people write in fields and short forms: a bare `CHG-12`, `checkout` where services are listed."""

from __future__ import annotations

import re

from opx.errors import InvalidReferenceError
from opx.graph.names import normalised, reference

_SHAPES = (
    ("cve", re.compile(r"CVE-\d{4}-\d{4,9}", re.IGNORECASE)),
    ("change", re.compile(r"(?:CHG|CHANGE|CRQ)[-_]?\d{1,12}", re.IGNORECASE)),
    ("incident", re.compile(r"(?:INC|INCIDENT)[-_]?\d{1,12}", re.IGNORECASE)),
    ("technique", re.compile(r"T\d{4}(?:\.\d{3})?")),
    ("mitigation", re.compile(r"M\d{4}")),
    ("jira", re.compile(r"[A-Z][A-Z0-9_]{1,14}-[1-9]\d{0,8}")),
    ("commit", re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{40})")),
)
"""What an identifier without a namespace is, by its shape: the first that fits counts."""

_NAMESPACED = re.compile(r"[A-Za-z][\w-]{0,38}:(?![:/\s]).*\S", re.DOTALL)


_TOLD = ("change:", "incident:")


def of_shape(text: str) -> str:
    """The reference of an identifier whose shape says what it is; "" for any other text."""
    for namespace, shape in _SHAPES:
        if shape.fullmatch(text):
            return made(namespace, text)
    return ""


def made(namespace: str, value: str) -> str:
    """The reference, or "" if there can't be one of this value."""
    try:
        return reference(namespace, value)
    except InvalidReferenceError:
        return ""


def has_namespace(text: str) -> bool:
    """Whether it is written as a reference: `service:checkout`, and not `https://checkout` or `std::map`."""
    return bool(_NAMESPACED.fullmatch(text))


def read(text: str, default: str) -> str:
    """What a field's value refers to: as it says itself, or else a thing in the default namespace; "" for none."""
    text = text.strip()
    if not has_namespace(text):
        return made(default, text)
    try:
        return normalised(text)
    except InvalidReferenceError:
        return ""


def read_id(text: str, default: str) -> str:
    """The same, of a field that is about changes and incidents: `change CHG-12` names its id."""
    words = (of_shape(word.strip(".,;:()")) for word in text.split())
    return of_shape(text.strip()) or next((key for key in words if key.startswith(_TOLD)), "") or read(text, default)


def product_key(text: str) -> str:
    """The reference of a product, written as in its CPE name: `Apache/HTTP Server` -> `product:apache/http_server`; "" for
    what has no letter in it."""
    value = text.partition(":")[2] if text.lower().startswith("product:") else text
    return made("product", "_".join(value.split())) if any(map(str.isalpha, value)) else ""


def value_of(key: str) -> str:
    """The reference without its namespace."""
    return key.partition(":")[2]
