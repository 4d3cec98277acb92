"""Names of objects in the corpus: made from the keys of pulled documents, and read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from opx.domain.ids import stable_hash
from opx.domain.sources import SourceDocument
from opx.formats.registry import is_binary, is_known
from opx.ingestion.events import DOCUMENTS_FOLDER, SIDECAR_SUFFIX

_FOLDER = "sources"
_MARK = "~"
"""Stands before an extension that the key doesn't have, so that `guide` and `guide.md` are two objects."""
_MARKED = re.compile(r"~\.(?:md|json)\Z")
_SAFE = "/@+,=()!~ "
_UNSAFE = re.compile(r"(^|/)\.+(/|$)|//")


def object_name(key: str) -> str:
    """Document key as part of an object's key: readable, and without characters that object keys can't have. Different
    keys have different names."""
    name = quote(key.strip("/"), safe=_SAFE)
    if name != quote(key, safe=_SAFE) or not name or len(name) > 400 or _UNSAFE.search(name) or _is_reserved(name):
        return f"{stable_hash('item', key)}{_extension(key)}"
    return name


def with_extension(name: str, content: str | bytes | Mapping[str, Any]) -> str:
    """The name with an extension of the content's format."""
    suffix = PurePosixPath(name).suffix
    if isinstance(content, bytes):
        return name
    if isinstance(content, str):
        return name if is_known(suffix) and suffix != ".json" and not is_binary(suffix) else name + ".md"
    return name if suffix == ".json" else name + ".json"


def pulled_name(source_id: str, document: SourceDocument) -> str:
    """The `source` of a pulled document: its object's name below the folder of its category, without an extension that is
    added when it is stored."""
    name = object_name(document.key)
    mark = "" if with_extension(name, document.content) == name else _MARK
    return f"{_FOLDER}/{source_id}/{name}{mark}"


def pulled_key(object_key: str, category: str) -> str:
    """The key of the document that a pull stored in this object; "" for an object that no pull made. A key that is no
    object's name was replaced by a hash, which is returned."""
    folder = f"{DOCUMENTS_FOLDER}{category}/{_FOLDER}/"
    name = object_key.removeprefix(folder).partition("/")[2] if object_key.startswith(folder) else ""
    return unquote(_MARKED.sub("", name))


def _is_reserved(name: str) -> bool:
    """True for names of metadata, and for those that another key has with its mark and extension."""
    return name.endswith(SIDECAR_SUFFIX) or bool(_MARKED.search(name))


def _extension(key: str) -> str:
    match = re.search(r"\.[A-Za-z0-9]{1,8}\Z", key)
    return match[0] if match and not key.endswith(SIDECAR_SUFFIX) else ""
