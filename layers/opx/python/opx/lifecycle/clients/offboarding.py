"""Offboards clients: removes everything of a client, then proves by counting again that nothing is left.

It may be interrupted at any moment and run again: the client's item records that it is under way, so that nothing more is
ingested for it, and a manifest in the corpus store records the initial counts. Every step is idempotent. Original objects
are removed last, as the rest is found by them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import SELF_TEST_CLIENTS, Scope
from opx.errors import HeldError, InvalidInputError, ObjectNotFoundError, StoreUnavailableError
from opx.ingestion.corpus.capability import Corpus
from opx.ingestion.corpus.clients import Client, ClientState, ClientView
from opx.lifecycle.clients.finding import Checks, ClientStores, Finder
from opx.lifecycle.report import FOLDER, CheckCounts, RemovalReport, StoreCounts
from opx.lifecycle.retention.holds import Holds, hold_message
from opx.lifecycle.rows import refuse_missing
from opx.ports import Item
from opx.ports.holdings import ClientDocument, HeldItems, Holding, SourceHolding
from opx.ports.tables import KEYS
from opx.runtime.knowledge_file import Installation

RECOUNTS = 4
"""Repetitions of the final count, for stores that show a removal only after a while."""

_POLL_SECONDS = 5.0

Progress = Callable[[str], None]
"""Called with a description of the next step."""


@dataclass(frozen=True, slots=True)
class Inventory:
    """Finds and counts everything of a client; `holdings` are in the order of removal."""

    finder: Finder
    holdings: list[Holding]
    checks: Checks

    def count(self, held: HeldItems) -> dict[str, int]:
        """Number of items in each store now."""
        counts: Counter[str] = Counter()
        for holding in self.holdings:
            counts[holding.name] += holding.count(held)
        return dict(counts)

    def declared(self, held: HeldItems) -> list[str]:
        """Sources and streams that remain active until they are removed from knowledge.yaml."""
        found = (one.declared(held) for one in self.holdings if isinstance(one, SourceHolding))
        return sorted({name for names in found for name in names})


@dataclass(frozen=True, slots=True)
class Manifest:
    """Inventory of a client when its removal began."""

    started: str
    held: HeldItems
    before: Mapping[str, int]
    checks: Mapping[str, int]

    def to_bytes(self) -> bytes:
        data = {
            "started": self.started,
            "scopes": self.held.scopes,
            "words": self.held.words,
            "documents": [document.to_json() for document in self.held.documents],
            "before": dict(self.before),
            "checks": dict(self.checks),
        }
        return json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass")

    @classmethod
    def from_bytes(cls, client_id: str, data: bytes) -> Manifest:
        found: dict[str, Any] = json.loads(data.decode("utf-8", "surrogatepass"))
        documents = tuple(map(ClientDocument.from_json, found["documents"]))
        held = HeldItems(client_id, tuple(found["scopes"]), documents, tuple(found["words"]))
        return cls(found["started"], held, found["before"], found["checks"])


@dataclass(eq=False)
class Offboarding:
    """Offboards clients; one process at a time per client."""

    installation: Installation
    stores: ClientStores
    inventory: Inventory
    _: KW_ONLY
    holds: Holds
    sleep: Callable[[float], None]
    progress: Progress

    def count(self, client_id: str) -> dict[str, int]:
        """Number of a client's items in each store now. Raises `InvalidScopeError` and `StoreUnavailableError`, and
        `InvalidInputError` for rows whose distribution isn't installed."""
        refuse_missing(self.stores.tables)
        return self.inventory.count(self.inventory.finder.find(_checked(client_id)))

    def remove(self, client_id: str, by: str = "") -> RemovalReport:
        """Remove a client, or resume an interrupted removal; from now on nothing is ingested for it.

        The report lists what is left, if anything; the client then stays in the state of being removed. Raises
        `InvalidInputError` for a client without any items, and for rows whose distribution isn't installed; `HeldError` while
        a legal hold covers something of it; and `StoreUnavailableError`: then run it again.
        """
        refuse_missing(self.stores.tables)
        client = self._begin(_checked(client_id), by)
        with self.stores.work.exclusive():
            self._wait_for_workers(client_id)
            manifest = self._manifest(client)
            for holding in self.inventory.holdings:
                self.progress(f"removing {holding.name}")
                holding.remove(manifest.held)
        report = self._proven(client, manifest)
        if not report.left:
            self._finish(client, report)
        return report

    # -- start

    def _begin(self, client_id: str, by: str) -> Client:
        self._check_holds(client_id)
        registry = self.stores.corpus.clients
        known = registry.get(client_id)
        if known and known.state is ClientState.REMOVING:
            return known
        if known is None and not any(self.count(client_id).values()):
            raise InvalidInputError(f"nothing is stored for a client {client_id}; `opx client list` lists all clients")
        moment = "".join(filter(str.isalnum, iso_time(self.installation.clock()))).lower()
        return registry.put(Client(client_id, ClientState.REMOVING, by=by, removal=f"{client_id}-{moment}"))

    def _check_holds(self, client_id: str) -> None:
        """Raises `HeldError` if a legal hold covers something of the client."""
        for hold in self.holds.in_force():
            if not hold.concerns(client_id):
                continue
            scopes = self.inventory.finder.find(client_id).scopes
            categories = sorted(self.installation.knowledge.categories)
            found = self.stores.corpus.catalog.visible(scopes, categories=categories, current_only=False)
            if not hold.category or any(hold.covers(one.key, one.category) for one in found):
                raise HeldError(f"client {client_id} can't be removed: {hold_message(hold)}")

    def _wait_for_workers(self, client_id: str) -> None:
        """Wait until no worker holds a lease on a document of the client. The client's item keeps new ones from starting."""
        self.progress("waiting for running work")
        self.sleep(min(self.stores.indexing.settling_seconds, _POLL_SECONDS))
        scopes = self.inventory.finder.find(client_id).scopes
        deadline = self.installation.clock() + self.installation.settings.lease_seconds
        while busy := self._busy(scopes):
            if self.installation.clock() > deadline:
                raise StoreUnavailableError(
                    f"{busy} documents of client {client_id} are still being worked on; try again"
                )
            self.sleep(_POLL_SECONDS)

    def _busy(self, scopes: Sequence[str]) -> int:
        now, table = self.installation.clock(), self.stores.tables.table(KEYS)
        items = (item for scope in scopes for item in table.query(scope, index="scope-index"))
        return sum(1 for item in items if _is_leased(item, now))

    # -- manifest

    def _manifest(self, client: Client) -> Manifest:
        """Inventory at the start of the removal, with everything found since."""
        self.progress("taking the inventory")
        former = self._stored(client)
        held = self.inventory.finder.find(client.client_id, former.held if former else None)
        manifest = (
            replace(former, held=held)
            if former
            else Manifest(client.since, held, self.inventory.count(held), self.inventory.checks.run(held))
        )
        self.stores.corpus.store.put(f"{_folder(client)}documents.json", manifest.to_bytes())
        return manifest

    def _stored(self, client: Client) -> Manifest | None:
        try:
            with self.stores.corpus.store.open(f"{_folder(client)}documents.json") as stream:
                return Manifest.from_bytes(client.client_id, stream.read())
        except ObjectNotFoundError:
            return None

    # -- proof

    def _proven(self, client: Client, manifest: Manifest) -> RemovalReport:
        report = self._count_again(client, manifest)
        for _ in range(RECOUNTS if self.stores.indexing.settling_seconds else 0):
            if not report.left:
                break
            self.sleep(self.stores.indexing.settling_seconds / RECOUNTS * 2)
            report = self._count_again(client, manifest)
        return report

    def _count_again(self, client: Client, manifest: Manifest) -> RemovalReport:
        self.progress("counting again in every store")
        held = self.inventory.finder.find(client.client_id, manifest.held)
        after, checks = self.inventory.count(held), self.inventory.checks.run(held)
        return RemovalReport(
            client_id=client.client_id,
            removal=client.removal,
            by=client.by,
            backend=self.installation.settings.backend,
            started=manifest.started,
            finished=iso_time(self.installation.clock()),
            scopes=len(held.scopes),
            stores={name: StoreCounts(*counts) for name, counts in _paired(manifest.before, after)},
            checks={name: CheckCounts(*counts) for name, counts in _paired(manifest.checks, checks)},
            notes=self._notes(held),
        )

    def _notes(self, held: HeldItems) -> tuple[str, ...]:
        notes = []
        declared = self.inventory.declared(held)
        if declared:
            notes.append(
                f"remove these from knowledge.yaml, their documents are no longer ingested: {', '.join(declared)}"
            )
        if self.stores.work.discard(lambda _: False, dry=True) is None:
            notes.append("messages waiting in queues name objects of the client; each is dropped when it is received")
        if self.stores.copies():
            notes.append("the knowledge base drops its copies in its next run, which was requested")
        days = self.installation.settings.embedding_cache_days
        notes.append(f"vectors of former embedding models expire within {days} days; they contain no text")
        return tuple(notes)

    def _finish(self, client: Client, report: RemovalReport) -> None:
        """Store the report, then erase the manifest, then mark the client as removed."""
        data = json.dumps(report.to_json(), ensure_ascii=False, indent=2).encode()
        self.stores.corpus.store.put(report.object_key, data)
        self.stores.storage.history.erase(_folder(client))
        self.stores.tables.scrub()
        self.stores.corpus.clients.put(replace(client, state=ClientState.REMOVED))


def _paired(before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Counts before and after by name. The removal may have begun with a program version that had other stores."""
    for name in {**before, **after}:
        yield name, (before.get(name, 0), after.get(name, 0))


def _checked(client_id: str) -> str:
    """Raises `InvalidInputError` for no client, and `InvalidScopeError` for a malformed id."""
    if not Scope(client_id).client_id:
        raise InvalidInputError("name a client; global documents can't be removed this way")
    return client_id


def _folder(client: Client) -> str:
    """Folder of the manifest, which names the client's documents and exists until the removal is proven."""
    return f"{FOLDER}{client.removal}/manifest/"


def _is_leased(item: Item, now: float) -> bool:
    return bool(item.get("leaseToken")) and float(item.get("leaseUntil", 0)) > now


# -- administration


class Administration:
    """Lists, adds and removes the clients of one system. It sees every scope: for the system's operator only."""

    def __init__(self, corpus: Corpus, finder: Finder, offboarding: Offboarding, by: str) -> None:
        self._corpus = corpus
        self._finder = finder
        self._offboarding = offboarding
        self._by = by

    def clients(self) -> list[ClientView]:
        """Every registered client, and those with recorded questions or baseline values, by id; those of self-tests, whose
        documents are deleted, are left out."""
        registered = {client.client_id for client in self._corpus.clients.all()}
        known = registered | self._finder.recorded_clients()
        return [self.view(client_id) for client_id in sorted(known.difference(SELF_TEST_CLIENTS))]

    def view(self, client_id: str) -> ClientView:
        """One client. Raises `InvalidScopeError` for a malformed id."""
        client = self._corpus.clients.get(client_id) or Client(client_id)
        projects = sum(1 for _ in self._corpus.projects.projects(client_id))
        documents = self._finder.document_count(client_id)
        return ClientView(client_id, client.state, client.since, documents, projects)

    def inventory(self, client_id: str) -> dict[str, int]:
        """Number of a client's items in each store; slow for large clients."""
        return self._offboarding.count(client_id)

    def add(self, client_id: str) -> Client:
        """See `ClientRegistry.add`."""
        return self._corpus.clients.add(client_id, self._by)

    def remove(self, client_id: str) -> RemovalReport:
        """See `Offboarding.remove`."""
        return self._offboarding.remove(client_id, self._by)
