"""Every table's keys, indexes and expiry, once: CDK, the embedded store and the tests build from here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class IndexSpec:
    """A secondary index. Items without its attributes are not in it."""

    name: str
    partition: str
    sort: str = ""


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table. All key attributes are strings unless listed in `numbers`; `ttl` names an attribute with epoch seconds."""

    name: str
    partition: str
    sort: str = ""
    indexes: tuple[IndexSpec, ...] = ()
    ttl: str = ""
    numbers: tuple[str, ...] = ()

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
        IndexSpec("category-lastUpdated-index", "category", "lastUpdated"),
        IndexSpec("tags-index", "tag", "lastUpdated"),
        IndexSpec("documentKey-version-index", "documentKey", "version"),
        IndexSpec("scope-category-index", "scopeKey", "categoryUpdated"),
    ),
    ttl="expiresAt",
    numbers=("version",),
)
"""One item a version (`entry` = `document#<key id>#<version>`) and one a tag of it (`tag#<tag>#<key id>`). Only versions
that are being removed expire by themselves, in case nobody finishes that."""

KEYS = TableSpec(
    name="opx-knowledge-keys",
    partition="documentKey",
    indexes=(IndexSpec("scope-index", "scope", "documentKey"),),
)
"""One item a document key: its current version, the last event applied, and who is working on it."""

ENTRIES = TableSpec(name="opx-knowledge-entries", partition="documentKey", sort="page")
"""Ids that the search service assigned, a page of them an item; unused where ids are ours."""

FAILURES = TableSpec(
    name="opx-knowledge-failures",
    partition="failureId",
    indexes=(
        IndexSpec("status-failedAt-index", "status", "failedAt"),
        IndexSpec("scope-index", "scope", "failedAt"),
    ),
)

EMBEDDINGS = TableSpec(name="opx-knowledge-embeddings", partition="cacheKey", ttl="expiresAt")
"""Vectors by model and text hash."""

PROJECTS = TableSpec(
    name="opx-knowledge-projects",
    partition="clientId",
    sort="projectId",
    indexes=(IndexSpec("group-index", "groupKey", "projectId"),),
)
"""One item a project, and in the partition `#clients` one a client: whether it is served, or was removed."""

IDEMPOTENCY = TableSpec(name="opx-knowledge-idempotency", partition="id", ttl="expiration")
"""Used by the ingestion function to skip events that were handled already."""

SOURCES = TableSpec(name="opx-knowledge-sources", partition="sourceId", sort="entry")
"""Of each source where its pulls are (`entry` = `state`), and an item for each of its documents (`item#<key>`) and for each
address whose validators are kept (`page#<hash>`). What was registered while the system ran is in partitions of its own:
`#registered` for sources, `#streams` for streams, an entry each."""

DELIVERIES = TableSpec(name="opx-knowledge-deliveries", partition="deliveryId", ttl="expiresAt")
"""Webhook deliveries that were taken in, so that none is taken twice."""

WEB_CACHE = TableSpec(name="opx-knowledge-web-cache", partition="cacheKey", ttl="expiresAt")
"""Answers of web searches."""

BASELINES = TableSpec(name="opx-knowledge-baselines", partition="seriesKey", sort="day", ttl="expiresAt")
"""What was measured, a sketch a day: `seriesKey` = scope, node and metric."""

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
)
"""Who asked when, within which scope, and which documents were returned; of the question its hash alone."""

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
"""Statements of documents about nodes and edges, in places of one scope each, and what each chunk gave rise to; see
`opx.graph.rows`."""

ALIASES = TableSpec(
    name="opx-knowledge-aliases",
    partition="clientId",
    sort="aliasArea",
    indexes=(IndexSpec("canonical-index", "canonicalPlace", "aliasArea"),),
)
"""Other names of things, an item for each name and scope; `clientId` is `global` for what everybody may see."""

STAGING = TableSpec(
    name="opx-knowledge-staging",
    partition="id",
    indexes=(
        IndexSpec("waiting-index", "waitingPlace", "timestamp"),
        IndexSpec("scope-index", "scopeKey", "timestamp"),
    ),
    ttl="expiresAt",
)
"""What work taught, as it was captured. Entries that no checkpoint has taken in yet have a `waitingPlace`, their scope."""

PATTERNS = TableSpec(name="opx-knowledge-patterns", partition="place", sort="entry", ttl="expiresAt")
"""How often each pattern worked and failed, in the place of its scope, and each occurrence of it, in a place of its own."""

OUTCOMES = TableSpec(name="opx-knowledge-outcomes", partition="place", sort="entry", ttl="expiresAt")
"""What came of documents that were retrieved: of each document what is known of it, in the place of a scope, and each
outcome that was told, in a place of its own."""

CALENDAR = TableSpec(name="opx-knowledge-calendar", partition="place", sort="entry")
"""Which versions of documents expire on a day, which are to be reviewed by one, and which were replaced when."""

LIFECYCLE = TableSpec(name="opx-knowledge-lifecycle", partition="subject", sort="entry", ttl="expiresAt")
"""Legal holds, how far pruning is and what it did, which indexes there are and which one answers."""

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
)
