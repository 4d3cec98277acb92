"""Ports of key-value tables with secondary indexes, and the specifications of all tables."""

from __future__ import annotations

import base64
import json
import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import fields

from opx.domain.record import from_json as record_from
from opx.domain.scopes import GLOBAL_KEY
from opx.errors import ConditionFailedError, DamagedRowError, InvalidInputError

log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S", bound=Struct)

Item = dict[str, Any]
"""A table item: JSON-like values (str, int, float, bool, None, list, dict) and bytes. Numbers are returned unchanged."""


class KeyAbsent(Struct, frozen=True):
    """True if the item or the attribute doesn't exist. Without attribute: the item itself."""

    attribute: str = ""


class Equals(Struct, frozen=True):
    """True if the attribute exists and equals the value."""

    attribute: str
    value: str | int | float | bool


class LessThan(Struct, frozen=True):
    """True if the attribute exists and sorts before the value (same type)."""

    attribute: str
    value: str | int | float


class AnyOf(Struct, frozen=True):
    """True if one of the conditions holds."""

    conditions: tuple[Condition, ...]


class AllOf(Struct, frozen=True):
    """True if all of the conditions hold."""

    conditions: tuple[Condition, ...]


Condition = KeyAbsent | Equals | LessThan | AnyOf | AllOf


class KeyRange(Struct, frozen=True):
    """Bounds on a sort attribute, both included; `begins_with` excludes the other two."""

    low: str | int | None = None
    high: str | int | None = None
    begins_with: str = ""


class ItemPage(Struct, frozen=True):
    """Items of a query, and the position behind them, an item of key attributes; None if nothing follows."""

    items: list[Item]
    next: Item | None


class StoredItem(dict[str, Any]):
    """An item as a store returned it. An attribute that it lacks is a `DamagedRowError`, not a `KeyError` somewhere."""

    __slots__ = ("spec",)
    spec: TableSpec

    def __missing__(self, name: str) -> Any:
        spec = self.spec
        key = {part: str(self.get(part))[:100] for part in (spec.partition, spec.sort) if part}
        raise DamagedRowError(
            f"a row of table {spec.name} is damaged: {key} has no {name}; restore it from a backup, or delete it"
        )


def stored(spec: TableSpec, item: Item) -> Item:
    """The item as one of this table."""
    found = StoredItem(item)
    found.spec = spec
    return found


def row_of(kind: type[S], item: Item) -> S:
    """The record in a row. Raises `DamagedRowError` for a missing attribute, `InvalidInputError` for one of another type."""
    try:
        return record_from(kind, item)
    except InvalidInputError:
        for one in fields(kind):
            if one.required:
                item[one.encode_name]  # raises for a missing one, and names the row
        raise


def readable(read: Callable[[Item], R], items: Iterable[Item]) -> Iterator[R]:
    """Reads rows one by one. A damaged one is left out and logged: it must not keep the others from being read."""
    for item in items:
        try:
            found = read(item)
        except (DamagedRowError, InvalidInputError, ValueError) as exc:
            log.warning("a damaged row is left out: %s", exc)
        else:
            yield found


class Table(Protocol):
    """Items by key with secondary indexes, as described by a `TableSpec`. Writes are durable when the call returns.

    Items whose `ttl` attribute lies in the past are never returned. Empty strings are valid values, but not as keys.
    """

    def get(self, key: Mapping[str, Any]) -> Item | None:
        """The item with this full key, read consistently, or None."""

    def get_many(self, keys: Sequence[Mapping[str, Any]]) -> list[Item]:
        """The items that exist among `keys`, in no particular order; any number of keys, duplicates allowed."""

    def put(self, item: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Write the item, replacing one with the same key. With a condition, only if it holds for the stored item
        (atomically); raises `ConditionFailedError` otherwise."""

    def put_many(self, items: Iterable[Mapping[str, Any]]) -> None:
        """Write all items, unconditionally, in batches; the last of several with one key wins. Not atomic as a whole."""

    def delete(self, key: Mapping[str, Any], *, condition: Condition | None = None) -> None:
        """Remove the item. Removing a missing item does nothing, unless a condition fails: `ConditionFailedError`."""

    def query(
        self,
        partition: str | int,
        *,
        index: str = "",
        where: KeyRange | None = None,
        reverse: bool = False,
        limit: int | None = None,
    ) -> Iterator[Item]:
        """Items of one partition of the table or an index, ordered by its sort attribute (in an index, ties in no
        particular order). Reads page by page as the caller iterates. An index may lag behind on AWS."""

    def page(
        self, partition: str | int, *, index: str = "", fields: Sequence[str] = (), begin: Item | None = None
    ) -> ItemPage:
        """A page of what `query` returns of the partition, for work that another call continues, also of another process:
        `begin` is the `next` of the page before, from where it goes on even if that item is gone. With `fields`, items have
        these attributes alone. A page may be empty although others follow. Where a value is spread, part comes after part,
        each in its order."""

    def count(self, partition: str | int, *, index: str = "", where: KeyRange | None = None) -> int:
        """The number of items that `query` would return, without transferring them; they are read all the same."""


def put_if(table: Table, item: Mapping[str, Any], condition: Condition) -> bool:
    """Writes the item on a condition; false if it doesn't hold."""
    try:
        table.put(item, condition=condition)
    except ConditionFailedError:
        return False
    return True


def delete_if(table: Table, key: Mapping[str, Any], condition: Condition | None) -> bool:
    """Removes the item, on a condition if there is one; false if it doesn't hold."""
    try:
        table.delete(key, condition=condition)
    except ConditionFailedError:
        return False
    return True


def put_revision(table: Table, item: Mapping[str, Any], read: Item | None) -> bool:
    """Writes the item with the next `revision`; false if it isn't the one any more that was read, None for none."""
    revision = int(read["revision"]) if read else 0
    condition = Equals("revision", revision) if read else KeyAbsent()
    return put_if(table, {**item, "revision": revision + 1}, condition)


class Tables(Protocol):
    """The tables of an installation, each by its specification.

    `read_threads` is the useful number of parallel reads; an index shows a write after `settling_seconds` at the latest.
    `in_folder`: a home folder holds them, and may be replaced by an older copy or an empty one.
    """

    read_threads: int
    settling_seconds: float
    in_folder: bool

    def table(self, spec: TableSpec) -> Table:
        """The table of a specification. Nothing is opened or created before it is used."""

    def every_item(self, spec: TableSpec, *, after: Item | None = None) -> Iterator[Item]:
        """All items of a table, in an order of the store's own: for backups, never on behalf of a reader. With the key of an
        item, which may be gone, those behind it."""

    def check_item(self, spec: TableSpec, item: Mapping[str, Any]) -> None:
        """Raises `InvalidInputError` for an item that the table wouldn't store."""

    def unit_of_work(self, *, synced: bool = True) -> AbstractContextManager[Any]:
        """Groups writes into one commit where the store can; nothing depends on it but speed. One that isn't `synced` needn't
        wait for the disk: a loss of power may take it, unless a later commit was synced."""

    def purge_expired(self) -> int:
        """Delete items whose `ttl` has passed, where the store doesn't do so itself; returns their number."""

    def scrub(self) -> None:
        """Overwrite remains of deleted items in local files."""

    def close(self) -> None:
        """Release files and connections."""


# -- specifications of tables


EVERY = "*"
SHARDS = 4
"""Partitions of DynamoDB that items of one value are spread over, where writes of many documents meet: each takes 1,000 write
units a second (docs/scale.md has the units a document)."""

SHARD_NAME = re.compile(r"#[1-9]\Z")
"""Ends the stored name of a part; no value of an index that is spread may end so."""


class IndexSpec(Struct, frozen=True):
    """A secondary index. Items without its attributes are not in it.

    `spread` is the value of `partition` whose items a store may keep in `SHARDS` parts, or `EVERY`; "" for none. Readers
    don't see the parts, but for `page`. No condition names the attribute `partition` of such an index.
    """

    name: str
    partition: str
    sort: str = ""
    spread: str = ""

    def is_spread(self, value: object) -> bool:
        """True if items with this value of `partition` may be in several parts."""
        return self.spread in (EVERY, value) and isinstance(value, str)


class TableSpec(Struct, frozen=True):
    """A table. All key attributes are strings unless listed in `numbers`; `ttl` names an attribute with epoch seconds.

    `synced`: an item is on the disk when it is put; without it, the last ones are lost if a laptop's power fails, but not
    if the process ends. `archived` exports all items with an archive.
    """

    name: str
    partition: str
    sort: str = ""
    indexes: tuple[IndexSpec, ...] = ()
    ttl: str = ""
    numbers: tuple[str, ...] = ()
    synced: bool = True
    archived: bool = False

    @property
    def short_name(self) -> str:
        """`gaps` of `opx-knowledge-gaps`."""
        return self.name.removeprefix("opx-knowledge-")

    def index(self, name: str) -> IndexSpec:
        for index in self.indexes:
            if index.name == name:
                return index
        raise KeyError(f"table {self.name} has no index {name}")

    def key_of(self, item: dict[str, object]) -> dict[str, object]:
        names = (self.partition, self.sort) if self.sort else (self.partition,)
        return {name: item[name] for name in names}


DOCUMENTS = TableSpec(
    name="opx-knowledge-documents",
    partition="documentId",
    sort="entry",
    indexes=(
        IndexSpec("category-lastUpdated-index", "category", "lastUpdated", spread=EVERY),
        IndexSpec("tags-index", "tag", "lastUpdated"),
        IndexSpec("documentKey-version-index", "documentKey", "version"),
        IndexSpec("scope-category-index", "scopeKey", "categoryUpdated", spread=GLOBAL_KEY),
    ),
    ttl="expiresAt",
    numbers=("version",),
)
"""One item a version (`entry` = `document#<key id>#<version>`) and one a tag of it (`tag#<tag>#<key id>`). Only versions
that are being removed have a TTL, in case the removal is not finished."""

KEYS = TableSpec(
    name="opx-knowledge-keys",
    partition="documentKey",
    indexes=(IndexSpec("scope-index", "scope", "documentKey", spread=GLOBAL_KEY),),
)
"""One item a document key: its current version, the last applied event, and the claim of the worker."""

ENTRIES = TableSpec(name="opx-knowledge-entries", partition="documentKey", sort="page")
"""Ids that the search service assigned, by edition of the index, a page of them an item; unused where ids are derived."""

FAILURES = TableSpec(
    name="opx-knowledge-failures",
    partition="failureId",
    indexes=(
        IndexSpec("status-failedAt-index", "status", "failedAt"),
        IndexSpec("scope-index", "scope", "failedAt"),
    ),
)

EMBEDDINGS = TableSpec(name="opx-knowledge-embeddings", partition="cacheKey", ttl="expiresAt", synced=False)
"""Vectors by model and text hash."""

ANNOUNCEMENTS = TableSpec(
    name="opx-knowledge-announcements",
    partition="clientId",
    sort="announcementId",
    indexes=(IndexSpec("waiting-index", "state", "announcedAt"),),
)
"""Changes of objects that the bucket announced and that no worker has settled yet; `clientId` is `global` for objects of the
global scope."""

PROJECTS = TableSpec(
    name="opx-knowledge-projects",
    partition="clientId",
    sort="projectId",
    indexes=(IndexSpec("group-index", "groupKey", "projectId"),),
    archived=True,
)
"""One item a project, and in the partition `#clients` one a client with its state: served or removed."""

IDEMPOTENCY = TableSpec(name="opx-knowledge-idempotency", partition="id", ttl="expiration")
"""Idempotency records of the ingestion function, which skips events that were handled already."""

SOURCES = TableSpec(name="opx-knowledge-sources", partition="sourceId", sort="entry", archived=True)
"""The pull state of each source (`entry` = `state`), and an item for each of its documents (`item#<key>`) and for each
address whose validators are kept (`page#<hash>`). Definitions registered at run time are in partitions of their own:
`#registered` for sources, `#streams` for streams, an entry each."""

DELIVERIES = TableSpec(name="opx-knowledge-deliveries", partition="deliveryId", ttl="expiresAt")
"""Accepted webhook deliveries, for deduplication."""

WEB_CACHE = TableSpec(name="opx-knowledge-web-cache", partition="cacheKey", ttl="expiresAt")
"""Cached results of web searches."""

BASELINES = TableSpec(name="opx-knowledge-baselines", partition="seriesKey", sort="day", ttl="expiresAt", archived=True)
"""Measured values, a sketch a day: `seriesKey` = scope, node and metric."""

GAPS = TableSpec(
    name="opx-knowledge-gaps",
    partition="scopeKey",
    sort="gapId",
    indexes=(IndexSpec("status-lastAskedAt-index", "statusKey", "lastAskedAt"),),
    ttl="expiresAt",
)
"""Questions without a good answer, one item a cluster of them."""

AUDIT = TableSpec(
    name="opx-knowledge-audit",
    partition="receiptId",
    indexes=(IndexSpec("who-askedAt-index", "who", "askedAt"),),
    ttl="expiresAt",
    synced=False,
)
"""Audit log: caller, time, scope and returned documents of each query, with only the hash of the question."""

GRAPH = TableSpec(
    name="opx-knowledge-graph",
    partition="place",
    sort="entry",
    indexes=(
        IndexSpec("out-index", "outPlace", "typeAt"),
        IndexSpec("in-index", "inPlace", "typeAt"),
        IndexSpec("type-index", "typePlace", "nodeKey"),
    ),
)
"""Statements of documents about nodes and edges, in partitions of one scope each, and the statements that each chunk led
to (see `opx.graph.rows`); newly declared names (see `opx.graph.relink_queue`)."""

ALIASES = TableSpec(
    name="opx-knowledge-aliases",
    partition="clientId",
    sort="aliasArea",
    indexes=(IndexSpec("canonical-index", "canonicalPlace", "aliasArea"),),
    archived=True,
)
"""Aliases of nodes, an item for each name and scope; `clientId` is `global` for aliases of the global scope."""

STAGING = TableSpec(
    name="opx-knowledge-staging",
    partition="id",
    indexes=(
        IndexSpec("waiting-index", "waitingPlace", "timestamp"),
        IndexSpec("scope-index", "scopeKey", "timestamp"),
    ),
    ttl="expiresAt",
    archived=True,
)
"""Captured entries. Those that no checkpoint has processed yet have a `waitingPlace`, their scope."""

PATTERNS = TableSpec(name="opx-knowledge-patterns", partition="place", sort="entry", ttl="expiresAt", archived=True)
"""Success and failure counts of each pattern, in the partition of its scope, and the occurrences of each pattern, in a
partition per pattern."""

OUTCOMES = TableSpec(name="opx-knowledge-outcomes", partition="place", sort="entry", ttl="expiresAt", archived=True)
"""Outcomes of retrieved documents: counts per document, in the partition of a scope, and each recorded outcome, in a
partition per document."""

USAGE = TableSpec(name="opx-knowledge-usage", partition="month", sort="clientDay", ttl="expiresAt", archived=True)
"""Numbers of each client's use, an item a client and day; kept when the client is removed."""

USES = TableSpec(
    name="opx-knowledge-uses",
    partition="scopeKey",
    sort="documentKey",
    ttl="expiresAt",
    archived=True,
)
"""The day on which each document was last used, in categories whose retention counts from it."""

CALENDAR = TableSpec(name="opx-knowledge-calendar", partition="place", sort="entry")
"""Versions of documents by day of expiry, by day of review, and by time of supersession."""

LIFECYCLE = TableSpec(name="opx-knowledge-lifecycle", partition="subject", sort="entry", ttl="expiresAt")
"""Legal holds, progress and reports of pruning, and the editions of the index with the one that answers."""

ALL_TABLES = (
    DOCUMENTS,
    KEYS,
    ENTRIES,
    FAILURES,
    EMBEDDINGS,
    PROJECTS,
    IDEMPOTENCY,
    SOURCES,
    DELIVERIES,
    WEB_CACHE,
    BASELINES,
    GAPS,
    AUDIT,
    GRAPH,
    ALIASES,
    STAGING,
    PATTERNS,
    OUTCOMES,
    CALENDAR,
    LIFECYCLE,
    ANNOUNCEMENTS,
    USAGE,
    USES,
)


# -- item json


BYTES = "$bytes"
_encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def to_json(item: Mapping[str, Any]) -> str:
    """The item as JSON. Bytes become `{"$bytes": <base64>}`; to keep that unambiguous, names that start with `$` get
    another `$`."""
    try:
        text = _encoded(dict(item))
    except TypeError:  # bytes
        return _encoded(_plain(dict(item)))
    return _encoded(_plain(dict(item))) if '"$' in text else text


def from_json(text: str) -> Item:
    if '"$' not in text:  # most items: nothing to restore, which is three times as fast
        item: Item = json.loads(text)
        return item
    restored: Item = json.loads(text, object_hook=_restore)
    return restored


def to_row(item: Mapping[str, Any]) -> str | bytes:
    """The item as JSON; with bytes, as in a cached vector, coded by Huffman's code: base64 alone takes a third more."""
    text = to_json(item)
    if BYTES not in text:
        return text
    packer = zlib.compressobj(strategy=zlib.Z_HUFFMAN_ONLY)
    return packer.compress(text.encode("utf-8", "surrogatepass")) + packer.flush()


def from_row(row: str | bytes) -> Item:
    """The item of a row of this or an earlier release, which had JSON only. Raises `ValueError`."""
    if isinstance(row, str):
        return from_json(row)
    try:
        text = row if row.startswith(b"{") else zlib.decompress(row)
    except zlib.error as exc:
        raise ValueError(f"a row can't be unpacked: {exc}") from exc
    return from_json(text.decode("utf-8", "surrogatepass"))


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {"$" + name if name.startswith("$") else name: _plain(element) for name, element in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    return value


def _restore(value: dict[str, Any]) -> object:
    if BYTES in value:
        return base64.b64decode(value[BYTES])
    return {name.removeprefix("$"): element for name, element in value.items()}
