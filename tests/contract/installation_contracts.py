"""Contracts of `Tables`, `Storage` and `WorkQueue`. A test class provides the fixture of the port."""

from __future__ import annotations

import pytest

from opx.errors import ForbiddenAddressError, InvalidInputError, SourceRefusedError
from opx.ports import Storage, Tables, WorkQueue
from opx.ports.tables import DOCUMENTS, PROJECTS

PROJECT = {"clientId": "acme", "projectId": "shop"}


class TablesContract:
    def test_tables_of_one_specification_share_their_items(self, tables: Tables) -> None:
        tables.table(PROJECTS).put({**PROJECT, "groupId": "web"})
        assert tables.table(PROJECTS).get(PROJECT) == {**PROJECT, "groupId": "web"}
        assert tables.table(DOCUMENTS).get({"documentId": "acme", "entry": "shop"}) is None

    def test_every_item_is_listed_once(self, tables: Tables) -> None:
        assert list(tables.every_item(PROJECTS)) == []
        items = [{**PROJECT, "projectId": f"p{number}"} for number in range(30)]
        tables.table(PROJECTS).put_many(items)
        assert sorted(item["projectId"] for item in tables.every_item(PROJECTS)) == sorted(
            item["projectId"] for item in items
        )

    def test_listing_goes_on_behind_any_item(self, tables: Tables) -> None:
        table = tables.table(PROJECTS)
        table.put_many({**PROJECT, "clientId": f"c{number % 7}", "projectId": f"p{number}"} for number in range(30))
        keys = [PROJECTS.key_of(item) for item in tables.every_item(PROJECTS)]
        table.delete(keys[11])
        assert [PROJECTS.key_of(item) for item in tables.every_item(PROJECTS, after=keys[11])] == keys[12:]
        assert list(tables.every_item(PROJECTS, after=keys[-1])) == []

    @pytest.mark.parametrize("item", [{"clientId": "acme"}, {"clientId": "", "projectId": "x"}])
    def test_an_item_that_would_not_be_stored_is_refused_before(self, tables: Tables, item: dict[str, str]) -> None:
        with pytest.raises(InvalidInputError):
            tables.check_item(PROJECTS, item)
        assert list(tables.every_item(PROJECTS)) == []

    def test_an_item_that_would_be_stored_is_not_stored_by_the_check(self, tables: Tables) -> None:
        tables.check_item(PROJECTS, PROJECT)
        assert list(tables.every_item(PROJECTS)) == []

    @pytest.mark.parametrize("synced", [True, False])
    def test_a_unit_of_work_keeps_what_was_written_in_it(self, tables: Tables, *, synced: bool) -> None:
        with tables.unit_of_work(synced=synced):
            tables.table(PROJECTS).put(PROJECT)
        assert tables.table(PROJECTS).get(PROJECT) == PROJECT

    def test_nothing_is_purged_or_scrubbed_that_is_in_use(self, tables: Tables) -> None:
        tables.table(PROJECTS).put(PROJECT)
        assert tables.purge_expired() == 0
        tables.scrub()
        assert tables.table(PROJECTS).get(PROJECT) == PROJECT

    def test_closing_twice_does_no_harm(self, tables: Tables) -> None:
        tables.close()
        tables.close()


class StorageContract:
    def test_an_objects_location_is_known_before_it_exists(self, storage: Storage) -> None:
        location = storage.location("documents/a b.md")
        assert storage.objects.put("documents/a b.md", b"a").location == location

    def test_history_has_what_objects_have(self, storage: Storage) -> None:
        storage.objects.put("documents/a.md", b"a")
        assert set(storage.history.held("documents/")) >= {"documents/a.md"}

    def test_objects_of_a_group_are_stored_when_it_ends(self, storage: Storage) -> None:
        with storage.grouped():
            put = [storage.objects.put(f"documents/{name}.md", b"text", metadata={"name": name}) for name in "ab"]
        assert [storage.objects.head(info.key) for info in put] == put
        with storage.grouped():
            last = [storage.objects.put("documents/a.md", text) for text in (b"first", b"last")][1]
        assert storage.objects.head("documents/a.md") == last

    @pytest.mark.parametrize("key", ["", "../a", "a//b"])
    def test_a_key_that_would_not_be_stored_is_refused_before(self, storage: Storage, key: str) -> None:
        with pytest.raises(InvalidInputError):
            storage.check(key, {})

    def test_metadata_that_is_too_long_is_refused_before(self, storage: Storage) -> None:
        storage.check("documents/a.md", {"note": "short"})
        with pytest.raises(InvalidInputError):
            storage.check("documents/a.md", {"note": "x" * 5000})

    def test_the_corpus_itself_is_no_other_bucket(self, storage: Storage) -> None:
        with pytest.raises((ForbiddenAddressError, SourceRefusedError)):
            storage.other_bucket("corpus")


class WorkQueueContract:
    def test_sent_message_waits_once(self, work: WorkQueue) -> None:
        work.queue.send("a")
        assert work.queue.waiting() == 1

    def test_numbers_grow_where_this_process_sends_the_events(self, work: WorkQueue) -> None:
        number = work.next_number
        assert (number is not None) == work.in_process
        if number:
            first, second = number(), number()
            assert first < second

    def test_exclusive_work_gives_back_what_it_holds(self, work: WorkQueue) -> None:
        for _ in range(2):
            with work.exclusive(), work.exclusive_pull("source"), work.exclusive_reindex():
                work.queue.send("a")
        assert work.queue.waiting() == 2

    def test_messages_are_discarded_where_they_can_be_looked_at(self, work: WorkQueue) -> None:
        for body in ("a", "b", "a"):
            work.queue.send(body)
        found = work.discard(lambda body: body == "a", dry=True)
        assert found in (None, 2)
        assert work.queue.waiting() == 3
        if found is not None:
            assert work.discard(lambda body: body == "a") == 2
            assert work.queue.waiting() == 1
