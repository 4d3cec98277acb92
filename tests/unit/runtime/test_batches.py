"""Messages of a batch: each is processed by itself, and those that fail are named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import UnexpectedBatchTypeError

from opx.runtime.batches import each_message


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
