"""Finds rows of the catalog that can't be read, and makes the items of keys again from their versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.scopes import scope_of_key
from opx.errors import DamagedRowError, InvalidInputError
from opx.ingestion.corpus.catalog import document_from_item
from opx.ingestion.corpus.claims import current_id
from opx.ports import Item, KeyAbsent, KeyRange, Tables
from opx.ports.tables import DOCUMENTS, KEYS, put_if
from opx_assurance.consistency.differences import Problem, StoreFinding

ROW_ERRORS = (DamagedRowError, InvalidInputError, ValueError, TypeError)
"""Errors of code that reads a row without an attribute, or with a value of another type."""


class KeyRows:
    """The rows of a document key, as they are stored."""

    def __init__(self, tables: Tables) -> None:
        self._keys = tables.table(KEYS)
        self._documents = tables.table(DOCUMENTS)

    def damaged(self, key_id: str, head: Item | None) -> list[StoreFinding]:
        """Findings of the key's item and its versions that can't be read."""
        head = head or {}
        current = current_id(head)
        stated = (_key_of(head), *map(_key_in, self._versions(key_id, current)))
        key = next((one for one in stated if one is not None), None)
        scope = key.scope.key if key else ""
        name = f"{key.scope.prefix}{key.source}" if key else ""
        found: list[tuple[Problem, str, str]] = []
        if head and (damage := _damage(check_head, head)):
            found.append((Problem.ROW_DAMAGED, current, f"table keys: {damage}"))
        for item in self._versions(key_id, current):
            if damage := _damage(document_from_item, item):
                is_old = str(item["documentId"]) != current
                problem = Problem.OLD_ROW_DAMAGED if is_old else Problem.ROW_DAMAGED
                found.append((problem, str(item["documentId"]), f"table documents, {item['entry']}: {damage}"))
        return [StoreFinding(problem, name, one, detail, key, key_id, scope) for problem, one, detail in found]

    def mend(self, key_id: str) -> None:
        """Delete a damaged row of the current version, and make a damaged item of the key again from its versions, so that
        the document can be ingested again. Rows of earlier versions stay as they are."""
        head = self._keys.get({"documentKey": key_id}) or {}
        current = current_id(head)
        for item in list(self._versions(key_id, current)):
            if str(item["documentId"]) == current and _damage(document_from_item, item):
                self._documents.delete(DOCUMENTS.key_of(item))
        if head and _damage(check_head, head):
            self._keys.delete({"documentKey": key_id})
            readable = (item for item in self._versions(key_id, current) if _key_in(item))
            for item in newest(readable):
                self._keys.put(head_of(item))

    def _versions(self, key_id: str, current: str) -> Iterator[Item]:
        """Items of versions by the index, and of the current one also if it lacks an attribute of that."""
        found = {str(item["entry"]): item for item in self._documents.query(key_id, index="documentKey-version-index")}
        if current:
            where = KeyRange(begins_with=f"document#{key_id}#")
            found |= {str(item["entry"]): item for item in self._documents.query(current, where=where)}
        return iter(found.values())


def is_listed(head: Item) -> bool:
    """True if the key is in the index by scope, by which keys are listed."""
    return isinstance(head.get("scope"), str)


def _damage(read: Callable[[Item], Any], item: Item) -> str:
    """The reason why the item can't be read; "" if it can."""
    try:
        read(item)
    except ROW_ERRORS as exc:
        return str(exc) if isinstance(exc, (DamagedRowError, InvalidInputError)) else "it has a value of another type"
    return ""


def check_head(head: Item) -> None:
    """Raises one of `ROW_ERRORS` for a damaged item of a key."""
    key = DocumentKey(scope_of_key(head["scope"]), head["source"])
    if not isinstance(head["source"], str) or key.id != head["documentKey"]:
        raise InvalidInputError("it is of another document")
    float(head.get("leaseUntil", 0))
    int(head.get("version", 0))
    sorted(head.get("writing") or {})
    if "documentId" in head and not {"version", "state"} <= head.keys():
        raise InvalidInputError("it has no version or state")


def _key_of(head: Item) -> DocumentKey | None:
    is_whole = bool(head) and not _damage(check_head, head)
    return DocumentKey(scope_of_key(str(head["scope"])), str(head["source"])) if is_whole else None


def _key_in(item: Item) -> DocumentKey | None:
    return None if _damage(document_from_item, item) else document_from_item(item).key


# -- items of keys


def restore_heads(tables: Tables) -> int:
    """Gives each key of the catalog without an item one that names its newest version; returns their number. It has no
    fingerprint, so that the document is ingested again."""
    keys = tables.table(KEYS)
    return sum(put_if(keys, head_of(item), KeyAbsent()) for item in list(newest(tables.every_item(DOCUMENTS))))


def newest(items: Iterable[Item]) -> Iterator[Item]:
    """The current version of each key, or else its newest."""
    found: dict[str, Item] = {}
    for item in items:
        key_id = str(item.get("documentKey", ""))
        if key_id and (key_id not in found or _rank(item) > _rank(found[key_id])):
            found[key_id] = item
    return iter(found.values())


def head_of(item: Item) -> dict[str, Any]:
    """An item of the key that names this version as its last."""
    facts = {name: item[name] for name in ("documentKey", "documentId", "version", "state", "source")}
    return {**facts, "scope": item["scopeKey"], "fingerprint": "", "revision": 1}


def _rank(item: Item) -> tuple[bool, int]:
    return item["state"] == DocumentState.CURRENT, int(item["version"])
