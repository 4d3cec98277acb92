"""The books: versions, claims, tags and references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.adapters.embedded.database import Database
from opx.adapters.embedded.table import SqliteTable
from opx.domain.documents import DocumentKey, DocumentState, KnowledgeDocument
from opx.domain.ids import iso_time
from opx.domain.record import replace
from opx.domain.scopes import Scope
from opx.errors import ConditionFailedError
from opx.ingestion.corpus.calendar import Calendar
from opx.ingestion.corpus.catalog import BusyError, Catalog, Claim, StaleEventError, VersionOrigin
from opx.ingestion.corpus.claims import CLOCKS_DIFFER, Claims, is_leased
from opx.ingestion.events import ObjectEvent
from opx.ports import Table
from opx.ports.tables import CALENDAR, DOCUMENTS, ENTRIES, KEYS
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.table import DynamoTable
from opx_testing.fake_time import FakeTime
from tests.doubles.hooked_table import CountedReads
from tests.support import builders
from tests.support.archive_support import tagged
from tests.support.builders import changed
from tests.support.dynamo_tables import create_tables
from tests.support.lessons import Died, Writes
from tests.support.sampling import sampled

LEASE = 900
MOST_WRITES = 40
LEDGER_TABLES = (DOCUMENTS, KEYS, ENTRIES, CALENDAR)
KEY = DocumentKey(Scope(), "documents/runbooks/disk.md")


@pytest.fixture
def catalog(database: Database, time: FakeTime) -> Catalog:
    tables = [SqliteTable(spec, database, clock=time.clock) for spec in (DOCUMENTS, KEYS, ENTRIES)]
    calendar = Calendar(SqliteTable(CALENDAR, database, clock=time.clock), load_knowledge(), time.clock)
    return Catalog(*tables, clock=time.clock, lease_seconds=LEASE, calendar=calendar)


@pytest.fixture
def dynamo_catalog(aws: boto3.Session, time: FakeTime) -> Catalog:
    client: Any = aws.client("dynamodb")
    create_tables(aws, (DOCUMENTS, KEYS, ENTRIES, CALENDAR))
    tables = [DynamoTable(spec, client, clock=time.clock) for spec in (DOCUMENTS, KEYS, ENTRIES)]
    calendar = Calendar(DynamoTable(CALENDAR, client, clock=time.clock), load_knowledge(), time.clock)
    return Catalog(*tables, clock=time.clock, lease_seconds=LEASE, calendar=calendar)


def an_event(number: int, *, sidecar: bool = False) -> ObjectEvent:
    return ObjectEvent(KEY.source + ".metadata.json" * sidecar, deleted=False, sequencer=f"{number:040X}")


def a_document(document_id: str = "d1", **changes: Any) -> KnowledgeDocument:
    dates = {"created_at": "2026-01-01", "last_updated": "2026-01-01"}
    document = builders.a_document(KEY.source, "Disk", location="s3://corpus/documents/disk.md", **dates)
    return changed(document, document_id=document_id, source_uri="disk.md", **changes)


def finished(catalog: Catalog, number: int, document: KnowledgeDocument, references: list[str] | None = None) -> Claim:
    claim = catalog.claim(document.key, an_event(number))
    catalog.claims.start_writing(claim, document.document_id)
    catalog.finish(claim, document, VersionOrigin(f"f{number}"), references)
    return claim


class TestClaims:
    def test_claimed_document_is_busy(self, catalog: Catalog) -> None:
        catalog.claim(KEY, an_event(1))
        with pytest.raises(BusyError):
            catalog.claim(KEY, an_event(2))

    def test_released_document_is_free_and_the_event_still_news(self, catalog: Catalog) -> None:
        assert catalog.claims.release(catalog.claim(KEY, an_event(1)), applied=False)
        assert catalog.claim(KEY, an_event(1)).attempts == 2

    def test_applied_event_is_stale(self, catalog: Catalog) -> None:
        catalog.claims.release(catalog.claim(KEY, an_event(2)), applied=True)
        for number in (1, 2):
            with pytest.raises(StaleEventError):
                catalog.claim(KEY, an_event(number))

    def test_sidecar_events_are_not_compared_with_those_of_the_document(self, catalog: Catalog) -> None:
        catalog.claims.release(catalog.claim(KEY, an_event(9)), applied=True)
        assert catalog.claim(KEY, an_event(1, sidecar=True)).current_id == ""

    def test_success_forgets_earlier_attempts(self, catalog: Catalog) -> None:
        catalog.claims.release(catalog.claim(KEY, an_event(1)), applied=False)
        finished(catalog, 1, a_document())
        assert catalog.claim(KEY, an_event(2)).attempts == 1

    def test_old_event_may_tidy_up_behind_an_interrupted_attempt(self, catalog: Catalog, time: FakeTime) -> None:
        finished(catalog, 5, a_document())
        catalog.claims.start_writing(catalog.claim(KEY, an_event(6)), "d2")
        with pytest.raises(StaleEventError):
            catalog.claim(KEY, an_event(4))
        time.sleep(LEASE + 1)
        claim = catalog.claim(KEY, an_event(4))
        assert (claim.interrupted, claim.unfinished) == (True, ("d2",))
        catalog.finish(claim, a_document(), VersionOrigin("f"), None)
        with pytest.raises(StaleEventError):
            catalog.claim(KEY, an_event(5))

    def test_lost_claim_changes_nothing(self, catalog: Catalog, time: FakeTime) -> None:
        late = catalog.claim(KEY, an_event(1))
        time.sleep(LEASE + 1)
        finished(catalog, 2, a_document("d2", tags=("new",)))
        with pytest.raises(ConditionFailedError):
            catalog.finish(late, a_document("d1", tags=("old",)), VersionOrigin("f"), ["r"])
        assert [version.document_id for version in catalog.versions(KEY)] == ["d2"]
        assert list(tagged(catalog, "old")) == []
        assert catalog.all_references(KEY.id) == []

    def test_lost_claim_in_a_group_does_not_take_the_others_back(
        self, catalog: Catalog, database: Database, time: FakeTime
    ) -> None:
        other = DocumentKey(Scope(), "documents/other.md")
        late = catalog.claim(KEY, an_event(1))
        time.sleep(LEASE + 1)
        catalog.claim(KEY, an_event(2))
        claim = catalog.claim(other, an_event(1))
        with database.transaction():
            with pytest.raises(ConditionFailedError):
                catalog.finish(late, a_document(), VersionOrigin("f"), None)
            catalog.finish(claim, a_document("d9", key=other), VersionOrigin("f"), None)
        assert [version.document_id for version in catalog.versions(other)] == ["d9"]
        assert list(catalog.versions(KEY)) == []

    def test_note_of_a_late_worker_outlives_the_finish_of_another(self, catalog: Catalog, time: FakeTime) -> None:
        late = catalog.claim(KEY, an_event(1))
        catalog.claims.start_writing(late, "d1")
        time.sleep(LEASE + 1)
        claim = catalog.claim(KEY, an_event(2))
        catalog.claims.start_writing(claim, "d1")
        catalog.claims.note_unfinished(KEY, "d1")
        catalog.finish(claim, a_document("d1"), VersionOrigin("f"), None)
        assert catalog.claim(KEY, an_event(1)).unfinished == ("d1",)

    def test_finish_clears_what_it_knew_to_be_unfinished(self, catalog: Catalog, time: FakeTime) -> None:
        catalog.claims.start_writing(catalog.claim(KEY, an_event(1)), "d1")
        time.sleep(LEASE + 1)
        finished(catalog, 2, a_document("d2"))
        assert not catalog.claim(KEY, an_event(3)).interrupted


class TestVersions:
    def test_versions_chain_newest_first(self, catalog: Catalog) -> None:
        for number in (1, 2, 3):
            finished(catalog, number, a_document(f"d{number}", version=number))
        assert [(v.version, v.document_id, v.state) for v in catalog.versions(KEY)] == [
            (3, "d3", "current"),
            (2, "d2", "superseded"),
            (1, "d1", "superseded"),
        ]
        assert all(version.superseded_at for version in list(catalog.versions(KEY))[1:])

    def test_a_version_ends_when_the_next_begins_however_long_it_takes_to_write(
        self, catalog: Catalog, time: FakeTime, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def clock() -> float:
            time.sleep(1)
            return time.now

        monkeypatch.setattr(catalog, "clock", clock)
        for number in (1, 2):
            finished(catalog, number, a_document(f"d{number}", version=number))
        new, old = catalog.versions(KEY)
        assert old.superseded_at == new.current_since

    def test_ten_versions_sort_by_number(self, catalog: Catalog) -> None:
        for number in range(1, 12):
            finished(catalog, number, a_document("even" if number % 2 == 0 else "odd", version=number))
        assert [version.version for version in catalog.versions(KEY)] == list(range(11, 0, -1))
        found = catalog.version(KEY, "even")
        assert found is not None
        assert found.version == 10

    def test_unfinished_version_is_removed_by_the_next(self, catalog: Catalog, time: FakeTime) -> None:
        finished(catalog, 1, a_document())
        claim = catalog.claim(KEY, an_event(2))
        catalog.claims.start_writing(claim, "d2")
        catalog._put(claim, a_document("d2", version=2, tags=("lost",)))
        time.sleep(LEASE + 1)
        finished(catalog, 3, a_document("d3", version=2))
        assert [version.document_id for version in catalog.versions(KEY)] == ["d3", "d1"]
        assert list(catalog.find("d2")) == []
        assert list(tagged(catalog, "lost")) == []

    def test_withdrawn_document_stays_readable(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document(tags=("a",)))
        catalog.withdraw(catalog.claim(KEY, an_event(2)))
        (version,) = catalog.versions(KEY)
        assert (version.state, list(tagged(catalog, "a"))) == ("deleted", [])
        assert catalog.claim(KEY, an_event(3)).current_id == ""

    def test_item_keeps_every_field(self, catalog: Catalog, time: FakeTime) -> None:
        document = a_document(
            key=DocumentKey(Scope("acme", project_id="shop"), "documents/a.md"),
            tags=("a", "b"),
            language="de",
            author="Ada",
            severity="high",
            services=("web",),
            declared_version="1.10",
            chunk_count=3,
            token_count=99,
            content_hash="c" * 64,
            expires="2030-01-01",
            review_by="2027-01-01",
            owner="storage",
        )
        finished(catalog, 1, document)
        (version,) = catalog.versions(document.key)
        assert replace(version, current_since="") == document
        assert version.current_since == iso_time(time.clock())

    def test_version_that_is_current_already_stays_so_since_then(self, catalog: Catalog, time: FakeTime) -> None:
        finished(catalog, 1, a_document())
        began = iso_time(time.clock())
        time.sleep(100)
        finished(catalog, 2, a_document(owner="storage"))
        assert [(one.owner, one.current_since) for one in catalog.versions(KEY)] == [("storage", began)]

    def test_version_without_current_since_keeps_it_empty(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document())
        (item,) = catalog.documents.query("d1")
        catalog.documents.put({**item, "currentSince": ""})
        finished(catalog, 2, a_document(owner="storage"))
        assert [(one.owner, one.current_since) for one in catalog.versions(KEY)] == [("storage", "")]


@dataclass
class Ledger:
    """A catalog whose writes are counted, and the calendar that it keeps."""

    catalog: Catalog
    calendar: Calendar
    writes: Writes
    time: FakeTime

    def dies(self, claim: Claim, document: KnowledgeDocument, step: int) -> bool:
        """Finishes a claim with a crash `step` writes later; True if it crashed."""
        self.writes.left = step
        try:
            self.catalog.claims.start_writing(claim, document.document_id)
            self.catalog.finish(claim, document, VersionOrigin("f"), None)
        except Died:
            return True
        finally:
            self.writes.left = -1
        return False

    def spans(self, key: DocumentKey) -> list[tuple[str, str]]:
        """From when to when each version was current, the oldest first."""
        return [(one.current_since, one.superseded_at) for one in self.catalog.versions(key)][::-1]

    def ends(self, key: DocumentKey) -> list[str]:
        """When versions were replaced, by the calendar."""
        return [one.at for one in self.calendar.replaced_since(key.scope.key, "") if one.key == key]


def a_ledger(tables: Sequence[Table], time: FakeTime) -> Ledger:
    writes = Writes()
    documents, keys, entries, days = map(writes.watch, tables)
    calendar = Calendar(days, load_knowledge(), time.clock)
    catalog = Catalog(documents, keys, entries, clock=time.clock, lease_seconds=LEASE, calendar=calendar)
    return Ledger(catalog, calendar, writes, time)


@pytest.fixture
def embedded_ledger(database: Database, time: FakeTime) -> Ledger:
    return a_ledger([SqliteTable(spec, database, clock=time.clock) for spec in LEDGER_TABLES], time)


@pytest.fixture
def dynamo_ledger(aws: boto3.Session, time: FakeTime) -> Ledger:
    client: Any = aws.client("dynamodb")
    create_tables(aws, LEDGER_TABLES)
    return a_ledger([DynamoTable(spec, client, clock=time.clock) for spec in LEDGER_TABLES], time)


RETRIES = {"the same again": "d2", "another one meanwhile": "d3", "an old one meanwhile": "d0"}


@pytest.mark.parametrize("retried", RETRIES)
@pytest.mark.parametrize("first", ["d2", "d0"])
@pytest.mark.parametrize("backend", ["embedded_ledger", "dynamo_ledger"])
def test_after_a_death_at_any_write_each_version_ends_when_the_next_begins(
    request: pytest.FixtureRequest, backend: str, first: str, retried: str
) -> None:
    """`d0` was replaced before, and comes back."""
    ledger: Ledger = request.getfixturevalue(backend)
    catalog, time = ledger.catalog, ledger.time
    for step in sampled(range(MOST_WRITES), part=list(RETRIES).index(retried)):
        key = DocumentKey(Scope(), f"documents/runbooks/{step}.md")
        for number, name in enumerate(("d0", "d1"), 1):
            finished(catalog, number, a_document(name, key=key, version=number, tags=(name,), review_by="2030-01-01"))
            time.sleep(100)
        died = ledger.dies(catalog.claim(key, an_event(3)), a_document(first, key=key, version=3, tags=("new",)), step)
        if not died:
            assert step > 8
            return
        time.sleep(LEASE + 1)
        finished(catalog, 4, a_document(RETRIES[retried], key=key, version=3))
        oldest, older, newest = ledger.spans(key)
        assert (oldest[1], older[1]) == (older[0], newest[0]), f"died at write {step}"
        assert newest == (iso_time(time.clock()), ""), f"died at write {step}"
        assert ledger.ends(key) == [oldest[1], older[1]], f"died at write {step}"
        time.sleep(100)
    pytest.fail("there are more writes than were tried")


def test_worker_that_was_overtaken_does_not_move_the_end_of_a_version(catalog: Catalog, time: FakeTime) -> None:
    finished(catalog, 1, a_document("d1"))
    late = catalog.claim(KEY, an_event(2))
    time.sleep(LEASE + 1)
    finished(catalog, 3, a_document("d3", version=2))
    time.sleep(100)
    catalog._retire(late, DocumentState.SUPERSEDED, iso_time(time.clock()))
    new, old = catalog.versions(KEY)
    assert old.superseded_at == new.current_since


class TestListing:
    def test_removed_tag_leaves_no_item(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document(tags=("old", "kept")))
        finished(catalog, 2, a_document(tags=("kept", "new")))
        items = {tag: len(list(catalog.documents.query(tag, index="tags-index"))) for tag in ("old", "kept", "new")}
        assert items == {"old": 0, "kept": 1, "new": 1}

    def test_tag_item_that_outlived_its_tag_finds_nothing(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document(tags=("kept",)))
        (item,) = catalog.documents.query("kept", index="tags-index")
        catalog.documents.put({**item, "entry": item["entry"].replace("kept", "lost"), "tag": "lost"})
        assert list(tagged(catalog, "lost")) == []

    def test_category_is_listed_last_updated_first(self, catalog: Catalog) -> None:
        for number, day in enumerate(["2026-01-02", "2026-01-03", "2026-01-01"]):
            key = DocumentKey(Scope(), f"documents/{number}.md")
            finished(catalog, 1, a_document(f"d{number}", key=key, last_updated=day, tags=("t",)))
        assert [d.document_id for d in catalog.in_category("runbooks/procedures")] == ["d1", "d0", "d2"]
        assert [d.document_id for d in tagged(catalog, "t")] == ["d1", "d0", "d2"]

    def test_category_lists_superseded_versions_only_on_request(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document("d1"))
        finished(catalog, 2, a_document("d2", version=2))
        assert [d.document_id for d in catalog.in_category("runbooks/procedures")] == ["d2"]
        assert len(list(catalog.in_category("runbooks/procedures", current_only=False))) == 2

    def test_current_versions_are_found_by_their_keys(self, catalog: Catalog) -> None:
        keys = [DocumentKey(Scope(), f"documents/{name}.md") for name in "abcd"]
        for key in keys[:3]:
            finished(catalog, 1, a_document("d1", key=key))
        finished(catalog, 2, a_document("d2", key=keys[0], version=2))
        catalog.withdraw(catalog.claim(keys[1], an_event(2)))
        found = catalog.current_versions([key.id for key in keys])
        assert {key_id: (one.document_id, one.version) for key_id, one in found.items()} == {
            keys[0].id: ("d2", 2),
            keys[2].id: ("d1", 1),
        }

    def test_versions_are_found_by_their_numbers(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document("d1"))
        finished(catalog, 2, a_document("d2", version=2))
        finished(catalog, 3, a_document("d1", version=3))
        found = catalog.numbered([(KEY.id, "d1", 1), (KEY.id, "d1", 3), (KEY.id, "d2", 1)])
        assert sorted((one.document_id, one.version) for one in found) == [("d1", 1), ("d1", 3)]

    def test_document_id_finds_every_key_that_has_it(self, catalog: Catalog) -> None:
        for source in ("documents/a.md", "documents/b.md"):
            finished(catalog, 1, a_document("d1", key=DocumentKey(Scope(), source), tags=("x",)))
        assert sorted(d.key.source for d in catalog.find("d1")) == ["documents/a.md", "documents/b.md"]

    def test_unknown_things_are_empty(self, catalog: Catalog) -> None:
        assert list(catalog.versions(KEY)) == list(catalog.find("d")) == list(tagged(catalog, "t")) == []
        assert (catalog.head(KEY), catalog.version(KEY, "d"), catalog.all_references(KEY.id)) == (None, None, [])


class TestReferences:
    @pytest.mark.parametrize("backend", ["catalog", "dynamo_catalog"])
    def test_thousands_of_references_are_kept_in_order(self, request: pytest.FixtureRequest, backend: str) -> None:
        catalog: Catalog = request.getfixturevalue(backend)
        references = [f"1%3A0%3A{number:08}" for number in range(2500)]
        finished(catalog, 1, a_document(), references)
        assert catalog.all_references(KEY.id) == references

    def test_fewer_references_leave_no_page_behind(self, dynamo_catalog: Catalog) -> None:
        finished(dynamo_catalog, 1, a_document("d1"), [f"r{number}" for number in range(2500)])
        finished(dynamo_catalog, 2, a_document("d2", version=2), ["only"])
        assert dynamo_catalog.all_references(KEY.id) == ["only"]

    def test_withdrawn_document_keeps_no_references(self, catalog: Catalog) -> None:
        finished(catalog, 1, a_document(), ["a", "b"])
        catalog.withdraw(catalog.claim(KEY, an_event(2)))
        assert catalog.all_references(KEY.id) == []


EVENT = ObjectEvent(KEY.source, deleted=False, sequencer="")


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[Any]:
    with bootstrap(Settings(home=str(tmp_path / "home"))) as system:
        yield CountedReads(system.tables.table(KEYS))


def claims_of(keys: Any, now: float = 1000.0) -> Claims:
    return Claims(keys, clock=lambda: now, lease_seconds=900)


def test_a_document_is_read_once_while_its_claim_holds(keys: Any) -> None:
    claims = claims_of(keys)
    claim = claims.claim(KEY, EVENT)
    claims.start_writing(claim, "document-1")
    claims.renew(claim)
    claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert keys.reads == 1
    head = keys.get({"documentKey": KEY.id})
    assert (head["documentId"], head["writing"], head["leaseToken"], head["revision"]) == ("document-1", {}, "", 4)


def test_a_note_by_another_worker_is_kept(keys: Any) -> None:
    claims, other = claims_of(keys), claims_of(keys)
    claim = claims.claim(KEY, EVENT)
    other.note_unfinished(KEY, "document-2")
    claims.start_writing(claim, "document-1")
    assert set(keys.get({"documentKey": KEY.id})["writing"]) == {"document-1", "document-2"}
    claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert set(keys.get({"documentKey": KEY.id})["writing"]) == {"document-2"}


def test_a_claim_that_another_worker_took_over_writes_nothing(keys: Any) -> None:
    claims, later = claims_of(keys), claims_of(keys, now=5000.0)
    claim = claims.claim(KEY, EVENT)
    taken = later.claim(KEY, EVENT)
    with pytest.raises(ConditionFailedError):
        claims.settle(claim, {"documentId": "document-1", "state": "current"})
    assert not claims.release(claim, applied=False)
    later.settle(taken, {"documentId": "document-2", "state": "current"})
    assert keys.get({"documentKey": KEY.id})["documentId"] == "document-2"


NOW = 1_790_000_000.0


@pytest.mark.parametrize(
    ("until", "seconds", "leased"),
    [
        (NOW + 10, 900, True),
        (NOW, 900, False),
        (NOW - 1, 900, False),
        (NOW + 900 + CLOCKS_DIFFER, 900, True),
        (NOW + 900 + CLOCKS_DIFFER + 1, 900, False),
        (NOW + 3600, 0, False),
        (NOW + 1, 0, False),
    ],
)
def test_lease_lasts_until_its_time_unless_it_is_longer_than_any(until: float, seconds: float, *, leased: bool) -> None:
    assert is_leased(until, NOW, seconds) is leased
