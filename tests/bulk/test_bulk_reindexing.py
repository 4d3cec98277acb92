"""A new index by the interpreted state machine, with another model, while questions are answered and documents change."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from opx.ingestion.events import ObjectEvent, Result
from opx.ingestion.indexing.book import EditionState
from opx.lifecycle.reindex.job import ReindexPhase
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkJob, BulkKind, BulkStage
from tests.bulk.bulk_cloud import BulkCloud, page

pytestmark = pytest.mark.bulk

TITAN = "amazon.titan-embed-text-v2:0"
DOCUMENTS = 24


@pytest.fixture
def filled(bulk: BulkCloud) -> BulkCloud:
    """Two dozen documents, ingested in the ordinary way."""
    for number in range(DOCUMENTS):
        write(bulk, number, page(number))
    bulk.cloud.bedrock.reset()
    return bulk


def name(number: int) -> str:
    return f"documents/runbooks/area{number % 7}/page-{number}.md"


def apply(bulk: BulkCloud, key: str, *, deleted: bool = False) -> None:
    (outcome,) = bulk.system.ingestion.pipeline.apply([ObjectEvent(key, deleted=deleted, sequencer="")])
    assert outcome.result in (Result.INGESTED, Result.DELETED), outcome


def write(bulk: BulkCloud, number: int, text: str) -> None:
    bulk.system.store.put(name(number), text.encode())
    apply(bulk, name(number))


def remove(bulk: BulkCloud, number: int) -> None:
    bulk.system.store.delete(name(number))
    apply(bulk, name(number), deleted=True)


class Traffic:
    """Asks a question at each call of a stage, and changes a document at the first call of each."""

    def __init__(self, bulk: BulkCloud) -> None:
        self._bulk = bulk
        self._changed: set[str] = set()
        self.questions: Counter[str] = Counter()
        self.wrong: list[Any] = []

    def __call__(self, event: dict[str, Any]) -> None:
        stage = event["stage"]
        found = self._bulk.ask("drain node n3")
        self.questions[stage] += 1
        if found[:1] != ["Page 3"]:
            self.wrong.append((stage, found))
        if stage not in self._changed:
            self._changed.add(stage)
            self._change(len(self._changed))

    def _change(self, number: int) -> None:
        write(self._bulk, 100 + number, page(100 + number))
        write(self._bulk, 10 + number, page(10 + number).replace("Restart unit", "Replace unit"))
        remove(self._bulk, 16 + number)


def switched(bulk: BulkCloud) -> tuple[BulkJob, Traffic]:
    """A job to its end, under traffic."""
    job, traffic = bulk.begin(BulkKind.REINDEX, model=TITAN, dimension=256), Traffic(bulk)
    bulk.functions.before = traffic
    ended = bulk.run(job)
    assert ended["status"] == "SUCCEEDED", (ended, bulk.system.part(Bulk.of).jobs.get(job.job_id))
    bulk.functions.before = lambda _event: None
    bulk.clock.sleep(60)  # warm functions look at the editions again after ten seconds
    return job, traffic


def test_a_switch_under_questions_and_writes_loses_nothing_and_can_be_undone(filled: BulkCloud) -> None:
    job, traffic = switched(filled)
    assert filled.system.part(Bulk.of).jobs.get(job.job_id).stage is BulkStage.DONE
    assert traffic.wrong == []
    assert set(traffic.questions) == {"list", "prepare", "embed", "apply", "finish"}
    assert filled.system.indexing.document_embedder.model_id == f"{TITAN}/256"
    assert filled.batches.embedded.total() >= DOCUMENTS - 1
    answers_as_written(filled, changes=5)

    write(filled, 200, page(200))  # after the switch, before going back
    reindexer = filled.system.lifecycle.reindexer
    reindexer.roll_back()
    for _ in range(100):
        progress = reindexer.advance(lambda: False)
        filled.clock.sleep(progress.wait_seconds)
        if progress.finished:
            break
    assert progress.job.phase is ReindexPhase.DONE
    filled.clock.sleep(60)
    assert filled.system.indexing.document_embedder.model_id == f"{TITAN}/1024"
    assert filled.ask("drain node n200")[0] == "Page 200"
    answers_as_written(filled, changes=5)


def answers_as_written(bulk: BulkCloud, changes: int) -> None:
    """Each write and each deletion made during the job is in what is answered."""
    for number in range(1, changes + 1):
        assert bulk.ask(f"drain node n{100 + number}")[0] == f"Page {100 + number}"
        assert f"Page {16 + number}" not in bulk.ask(f"drain node n{16 + number}")
        assert bulk.ask(f"replace unit u{10 + number}")[0] == f"Page {10 + number}"


def test_a_cancelled_job_discards_the_index_that_it_was_building(filled: BulkCloud) -> None:
    job = filled.begin(BulkKind.REINDEX, model=TITAN, dimension=256)

    def cancel(event: dict[str, Any]) -> None:
        if event["stage"] == "apply":
            filled.runner.cancel(execution)
            filled.system.part(Bulk.of).stages.cancel(job.job_id)

    filled.functions.before = cancel
    execution = filled.runner._arn(f"{job.job_id}-1")
    filled.runner.start(job.job_id)
    assert filled.machine.ended(execution)["status"] == "ABORTED"
    states = [edition.state for edition in filled.system.indexing.editions.book.read().others]
    assert EditionState.BUILDING not in states
    assert filled.ask("drain node n3")[0] == "Page 3"
    assert len(filled.cloud.search._indexes) == 1
