"""References from what people write in fields and texts: a bare `CHG-12`, `checkout` where services are listed, products."""

from __future__ import annotations

import re

from opx.domain.graph import NodeStatement, node_type
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

_ALERT = re.compile(r"(?:etcd)?[A-Z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_VERSIONED = re.compile(
    r"(?P<name>.*\S)(?:[ @:]+|/(?=v?\d+\.\d))v?(?P<version>\d\S*(?: (?:sp|p|r|u|rev|update)[ _]?\d\S*)?)", re.IGNORECASE
)


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


def is_alert_name(text: str) -> bool:
    """Whether it is written as alerts are: two words or more in one, each with a capital, such as KubePodCrashLooping."""
    return bool(_ALERT.fullmatch(text)) and sum(map(str.isupper, text)) > 1 and any(map(str.islower, text))


def named(name: str, key: str, chunk_ids: tuple[str, ...] = (), *, declared: bool = False) -> NodeStatement:
    """A thing with its name as it is written."""
    return NodeStatement(key, node_type(key), {"name": name}, chunk_ids, declared)


def product_of(text: str) -> tuple[str, str]:
    """The reference and the version of a product: `nginx 1.24.0`, `fortinet/fortios@7.0.13`; without a version ""."""
    match = _VERSIONED.fullmatch(_told_product(text))
    return product_key(name_of_product(text)), match["version"] if match else ""


def name_of_product(text: str) -> str:
    """As it is written, without a version."""
    match = _VERSIONED.fullmatch(_told_product(text))
    return match["name"].rstrip(" @:") if match else _told_product(text)


def _told_product(text: str) -> str:
    line = " ".join(text.split())
    return line.partition(":")[2].strip() if line.lower().startswith("product:") else line
