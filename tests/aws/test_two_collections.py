"""An index is built in a second collection beside the one that answers, and switched to and back, on both generations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import boto3
import pytest

from opx.domain.documents import DocumentKey
from opx.domain.scopes import scope_of_object
from opx.errors import IncompatibleIndexError, InvalidInputError
from opx.ingestion.corpus.catalog import Catalog
from opx.lifecycle.reindex.job import ReindexPhase
from opx.settings import SECOND_COLLECTION
from opx_aws.opensearch import opensearch_client
from opx_aws.ports import SearchCollection
from opx_testing.entries import EVERYONE
from opx_testing.fake_time import FakeTime
from tests.aws.rebuilt_indexes import HOUR, Deployed, a_deployment, connected, first_collection
from tests.doubles.opensearch import OpenSearchDouble

VISIBLE_AFTER = {"nextgen": 10.0, "classic": 60.0}


@dataclass
class Both:
    """A deployment with a collection of each name; the second one shows writes as late as its generation does."""

    deployed: Deployed
    green: SearchCollection

    def settle(self) -> None:
        self.deployed.clock.sleep(max(VISIBLE_AFTER.values()) + 1)

    def switch(self, **request: Any) -> ReindexPhase:
        return self.deployed.run(HOUR, **(request or {"do": "reindex", "collection": SECOND_COLLECTION}))

    def first(self, question: str) -> str:
        return (self.deployed.ask(question) or [""])[0]

    def entries(self) -> int:
        self.settle()
        return self.deployed.services.index.count(EVERYONE)

    @property
    def active(self) -> str:
        return self.deployed.services.indexing.editions.book.read().active.collection


@pytest.fixture(params=["nextgen", "classic"])
def both(aws: boto3.Session, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Both]:
    clock = FakeTime()
    with OpenSearchDouble(request.param, visible_after=VISIBLE_AFTER[request.param], clock=clock.clock) as double:
        client = opensearch_client(double.endpoint, aws.get_credentials(), "eu-central-1")
        green = SearchCollection.of_generation(lambda: client, request.param, "")
        with a_deployment(aws, monkeypatch, {SECOND_COLLECTION: green}, clock=clock) as deployed:
            yield Both(deployed, green)
        client.close()


def test_the_other_collection_answers_after_the_switch_with_what_changed_meanwhile(both: Both) -> None:
    deployed = both.deployed
    deployed.call(json.dumps({"do": "reindex", "collection": SECOND_COLLECTION}), left=0)
    deployed.put("tape", "# Tape lost\n\nAsk the courier.\n")
    deployed.delete("vault")
    assert deployed.run(do="go on") is ReindexPhase.DONE
    assert both.active == SECOND_COLLECTION
    assert (both.first("grow the volume"), both.first("ask the courier")) == ("Disk full", "Tape lost")
    assert both.entries() == 2


def test_changes_after_the_switch_replace_their_entries_in_the_other_collection(both: Both) -> None:
    both.switch()
    both.deployed.put("disk", "# Disk full\n\nCall the storage team.\n")
    both.deployed.put("disk", "# Disk full\n\nCall the night shift.\n")  # before the first one is visible
    both.deployed.delete("vault")
    assert both.entries() == 1
    assert both.first("call the night shift") == "Disk full"


def test_going_back_and_forth_loses_no_change(both: Both) -> None:
    both.switch()
    both.deployed.put("lock", "# Lock held\n\nFind the session.\n")
    assert both.switch(do="rollback") is ReindexPhase.DONE
    assert (both.active, both.entries(), both.first("find the session")) == ("blue", 3, "Lock held")
    both.deployed.put("lock", "# Lock held\n\nKill the blocker.\n")
    both.deployed.delete("disk")
    assert both.switch(do="rollback") is ReindexPhase.DONE
    assert (both.active, both.entries(), both.first("kill the blocker")) == (SECOND_COLLECTION, 2, "Lock held")


def test_a_function_that_dies_before_it_keeps_the_references_leaves_no_second_entries(
    both: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is kept of derived ids, so that nothing dies there."""
    keep, died = Catalog.keep_references, [False]

    def die_once(catalog: Catalog, *about: Any) -> None:
        if about[1] and not died[0]:
            died[0] = True
            raise SystemExit
        keep(catalog, *about)

    monkeypatch.setattr(Catalog, "keep_references", die_once)
    both.deployed.call(json.dumps({"do": "reindex", "collection": SECOND_COLLECTION}))
    both.deployed.clock.sleep(400)
    try:
        phase = both.deployed.run(HOUR, do="go on")
    except SystemExit:
        both.deployed.clock.sleep(1000)  # the lease of the one that died
        phase = both.deployed.run(HOUR, do="go on")
    assert died[0] == (both.green.generation == "classic")
    assert (phase, both.entries()) == (ReindexPhase.DONE, 2)


@pytest.mark.parametrize("both", ["classic"], indirect=True)
def test_an_interrupted_write_is_repeated_only_when_its_entries_are_visible(both: Both) -> None:
    both.switch()
    services = both.deployed.services
    key, edition = DocumentKey(*scope_of_object("documents/runbooks/disk.md")), services.indexing.editions.current()
    services.corpus.catalog.expect_references([key.id], edition.name)
    filler = services.lifecycle.filler(services.indexing.document_embedder)
    assert filler.renew(edition, key.id, None, since="").postponed == [key.id]
    both.deployed.clock.sleep(66)
    assert filler.renew(edition, key.id, None, since="").postponed == []
    assert both.entries() == 1


def test_a_collection_that_is_not_deployed_is_refused_with_those_that_are(both: Both) -> None:
    with pytest.raises(InvalidInputError, match="there is no search collection 'red' here; there is blue and green"):
        both.deployed.services.lifecycle.reindexer.start(collection="red")


def test_without_the_first_collection_the_second_one_answers_and_discards_it(both: Both) -> None:
    both.switch()
    alone = connected(both.deployed.cloud, {SECOND_COLLECTION: both.green}, both.deployed.clock)
    both.settle()
    assert alone.ask("grow the volume")[0] == "Disk full"
    with pytest.raises(InvalidInputError, match="can't be used any more"):
        alone.services.lifecycle.reindexer.roll_back()
    both.deployed.clock.sleep(400)
    assert [one.collection for one in alone.services.lifecycle.reindexer.discard()] == ["blue"]
    assert alone.ask("grow the volume")[0] == "Disk full"


def test_without_the_collection_of_the_active_index_searches_name_the_way_out(both: Both) -> None:
    both.switch()
    alone = connected(both.deployed.cloud, {"blue": first_collection(both.deployed.cloud)}, both.deployed.clock)
    with pytest.raises(IncompatibleIndexError, match="the index is in the collection green"):
        alone.services.index.count(EVERYONE)


def test_editions_of_earlier_releases_are_in_the_first_collection(both: Both) -> None:
    editions = both.deployed.services.indexing.editions
    first = editions.book.read().active
    assert first.collection == "blue"
    entry = first.to_json()
    del entry["collection"]
    assert (
        both.deployed.services.indexing.indexes.open(
            type(first).from_json(entry), lambda: both.deployed.services.indexing.embedder
        ).count(EVERYONE)
        == 2
    )
