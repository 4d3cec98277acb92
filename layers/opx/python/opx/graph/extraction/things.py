"""Things as fields and texts name them: alerts, runbooks, and products with their versions."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from opx.domain.graph import NodeStatement, node_type
from opx.graph.extraction.own_node import reference_of_source
from opx.graph.extraction.references import has_namespace, product_key, read

_ALERT = re.compile(r"(?:etcd)?[A-Z][A-Za-z0-9]*(?:[-_][A-Za-z0-9]+)*")
_VERSIONED = re.compile(
    r"(?P<name>.*\S)(?:[ @:]+|/(?=v?\d+\.\d))v?(?P<version>\d\S*(?: (?:sp|p|r|u|rev|update)[ _]?\d\S*)?)", re.IGNORECASE
)


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


def runbook_of(text: str) -> str:
    """The reference of a runbook by its name or its path; "" for an address."""
    text = text.strip()
    if "://" in text:
        return ""
    if has_namespace(text):
        return read(text, "runbook")
    path = "/".join(part for part in PurePosixPath(text).parts if part not in ("..", "."))
    return reference_of_source(path) if path else ""
