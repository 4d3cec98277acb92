"""Functions: contents of a snapshot, objects created after a restore, and messages of a batch, each processed by itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import UnexpectedBatchTypeError

from lambdas.retrieve_knowledge.handler import make_handler
from opx.operations.system import System
from opx.runtime.batches import each_message
from opx.runtime.functions import around_snapshot
from opx.settings import Settings
from opx.system import bootstrap

SETTINGS = Settings(backend="aws", search_endpoint="https://search.example", corpus_bucket="corpus")


class Runtime:
    """Keeps hooks as Lambda's module of this name does."""

    def __init__(self) -> None:
        self.before: list[Callable[[], object]] = []
        self.after: list[Callable[[], object]] = []

    def module(self) -> ModuleType:
        made = ModuleType("snapshot_restore_py")
        made.register_before_snapshot = self.before.append  # type: ignore[attr-defined]
        made.register_after_restore = self.after.append  # type: ignore[attr-defined]
        return made


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    made = Runtime()
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", made.module())
    return made


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A region, and nowhere that credentials could come from."""
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")


def test_the_retrieval_function_has_a_hook_for_each_side_of_the_snapshot(runtime: Runtime) -> None:
    services = bootstrap(SETTINGS)
    make_handler(lambda: services)
    assert (len(runtime.before), len(runtime.after)) == (1, 1)


@pytest.mark.usefixtures("nobody")
def test_before_the_snapshot_no_client_is_created_and_no_credentials_are_requested(runtime: Runtime) -> None:
    services = bootstrap(SETTINGS)
    make_handler(lambda: services)
    runtime.before[0]()
    assert "knowledge" in vars(services.installation)
    assert not set(vars(services)) & {"tables", "storage", "work", "indexing", "corpus"}
    assert "opensearchpy" in sys.modules


def test_after_the_restore_the_clients_of_questions_are_there(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "restored")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "restored")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    services = bootstrap(SETTINGS)
    make_handler(lambda: services)
    runtime.before[0]()
    runtime.after[0]()
    assert {"index", "embedder"} <= set(vars(services.indexing))
    assert {"projects", "catalog"} <= set(vars(services.corpus))
    assert "_client" in vars(services.tables)


def test_system_is_not_built_where_snapshots_are_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "snapshot_restore_py", None)

    def never() -> System:
        raise AssertionError("nothing asked for it")

    assert not around_snapshot(never)


def an_event(*bodies: str, receives: int = 1) -> dict[str, Any]:
    """Lambda's event of a queue."""
    attributes = {"ApproximateReceiveCount": str(receives)}
    return {
        "Records": [
            {"messageId": f"m{at}", "body": body, "attributes": attributes, "eventSource": "aws:sqs"}
            for at, body in enumerate(bodies)
        ]
    }


def again(event: dict[str, Any], process: Callable[[str, int], bool]) -> list[object]:
    return [failure["itemIdentifier"] for failure in each_message(event, process)["batchItemFailures"]]


def test_messages_are_processed_in_order_with_their_deliveries() -> None:
    seen: list[tuple[str, int]] = []

    def process(body: str, receives: int) -> bool:
        seen.append((body, receives))
        return True

    assert again(an_event("a", "b", receives=3), process) == []
    assert seen == [("a", 3), ("b", 3)]


def test_those_that_fail_come_again_alone() -> None:
    def process(body: str, _: int) -> bool:
        if body == "broken":
            raise ZeroDivisionError
        return body != "later"

    assert again(an_event("done", "broken", "later", "done"), process) == ["m1", "m2"]


def test_a_batch_of_failures_alone_is_no_failure_of_the_function() -> None:
    assert again(an_event("a", "b"), lambda *_: False) == ["m0", "m1"]


@pytest.mark.parametrize("event", [{"Records": []}, {"detail-type": "Checkpoint"}])
def test_an_event_that_is_no_batch_is_refused(event: dict[str, Any]) -> None:
    with pytest.raises(UnexpectedBatchTypeError):
        each_message(event, lambda *_: True)


def test_one_batch_remembers_nothing_of_the_one_before() -> None:
    assert again(an_event("a"), lambda *_: False) == ["m0"]
    assert again(an_event("a"), lambda *_: True) == []
