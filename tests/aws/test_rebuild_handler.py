"""The function that makes a new index, on DynamoDB, S3, SQS and a double of OpenSearch, while others ask and change."""

from __future__ import annotations

import json
from collections.abc import Iterator

import boto3
import pytest

from opx.domain.queries import SearchMode
from opx.errors import EmbeddingError, ReindexBusyError
from opx.lifecycle.reindex.job import ReindexPhase
from opx.retrieval.calibration.calibrating import Calibrator
from opx.retrieval.calibration.models import with_changes
from opx.retrieval.confidence import shipped
from opx.retrieval.hybrid import BOTH
from opx.retrieval.searching import CalibratedModels
from tests.aws.rebuilt_indexes import HOUR, TITAN, Deployed, a_deployment
from tests.support.calibration_support import page

FOLDERS = ("documents/runbooks/procedures", "documents/postmortems")


@pytest.fixture
def deployed(aws: boto3.Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployed]:
    with a_deployment(aws, monkeypatch) as system:
        yield system


def test_turns_make_an_index_that_answers_while_documents_change(deployed: Deployed) -> None:
    deployed.call(json.dumps({"do": "reindex", "model": TITAN, "dimension": 256}), left=0)
    job = deployed.services.lifecycle.reindexer.status()[1]
    assert job is not None
    assert (job.phase, job.documents) == (ReindexPhase.WAITING, 0)  # for functions that know nothing of it
    deployed.put("tape", "# Tape lost\n\nAsk the courier.\n")
    deployed.delete("vault")
    assert deployed.run(do="go on") is ReindexPhase.DONE
    assert deployed.services.indexing.document_embedder.model_id == f"{TITAN}/256"
    found = [deployed.ask(question)[:1] for question in ("grow the volume", "ask the courier")]
    assert found == [["Disk full"], ["Tape lost"]]
    assert "Unseal the vault" not in deployed.ask("unseal the vault")
    deployed.call('{"do": "go on"}')  # a message that came twice
    assert deployed.next_turn() is None


def test_the_earlier_index_can_be_gone_back_to_and_the_other_one_removed(deployed: Deployed) -> None:
    deployed.run(HOUR, do="reindex", model=TITAN, dimension=256)
    deployed.put("lock", "# Lock held\n\nFind the session that holds it.\n")
    assert deployed.run(do="rollback") is ReindexPhase.DONE
    assert deployed.services.indexing.document_embedder.model_id == f"{TITAN}/1024"
    found = [deployed.ask(question)[:1] for question in ("grow the volume", "find the session", "unseal the vault")]
    assert found == [["Disk full"], ["Lock held"], ["Unseal the vault"]]
    deployed.call('{"do": "discard"}')
    assert len(deployed.services.indexing.every_index()) == 1
    assert deployed.ask("grow the volume")[0] == "Disk full"


def test_of_two_at_once_one_works(deployed: Deployed) -> None:
    reindexer = deployed.services.lifecycle.reindexer
    reindexer.start(model=TITAN, dimension=256)
    held = reindexer._held()
    with pytest.raises(ReindexBusyError):
        deployed.services.lifecycle.reindexer.advance(lambda: True)
    deployed.call('{"do": "go on"}')  # leaves it to the one who has it
    assert deployed.next_turn() is None
    deployed.clock.sleep(1000)
    deployed.call('{"do": "go on"}', left=0)  # who had it was ended
    with pytest.raises(ReindexBusyError):
        reindexer._parts.jobs.save(held)


MODEL = f"{TITAN}/1024"


def test_the_new_index_is_calibrated_for_after_the_switch(deployed: Deployed) -> None:
    deployed.run(HOUR, do="reindex", model=TITAN, dimension=256)
    kept = deployed.services.questions.calibrations.read(f"{TITAN}/256")
    assert (kept.calibration, kept.entries) == (None, 2)  # it was tried: two documents are too few
    assert deployed.services.questions.calibrations.read(MODEL).entries is None


def test_a_message_calibrates_and_searches_use_what_was_kept(deployed: Deployed) -> None:
    for number in range(32):
        deployed.ingest(f"{FOLDERS[number % 2]}/{number}.md", page(number))
    deployed.call('{"do": "calibrate"}')
    kept = deployed.services.questions.calibrations.read(MODEL)
    assert kept.calibration
    assert (kept.entries, kept.calibration.documents) == (34, 34)
    assert kept.calibration.loss < kept.calibration.loss_before
    models = CalibratedModels(deployed.services.questions.kept_calibration)(MODEL, BOTH, SearchMode.BALANCED)
    assert models == with_changes(MODEL, kept.calibration.fit, BOTH, SearchMode.BALANCED)
    assert models != shipped(MODEL, BOTH, SearchMode.BALANCED)


def test_a_message_leaves_alone_what_is_not_due(deployed: Deployed) -> None:
    store = deployed.services.questions.calibrations
    store.write(MODEL, None, entries=2)
    before = deployed.cloud.bedrock.calls
    deployed.call('{"do": "calibrate", "ifDue": true}')
    assert deployed.cloud.bedrock.calls == before
    assert deployed.next_turn() is None


def test_a_model_that_can_not_be_calibrated_is_not_retried(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise EmbeddingError("zeros")

    monkeypatch.setattr(Calibrator, "run", refused)
    deployed.call('{"do": "calibrate"}')  # doesn't raise: the queue would hand it out again
    assert deployed.next_turn() is None
