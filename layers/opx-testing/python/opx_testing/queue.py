"""Contract of `Queue`. A test class inherits this and provides the fixture `queue`.

These tests don't control time: they hide and delay either for no time or for long.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from opx.errors import InvalidInputError
from opx.ports import Queue


class QueueContract:
    def test_empty_queue_gives_nothing(self, queue: Queue) -> None:
        assert queue.receive() == []
        assert queue.waiting() == 0

    @pytest.mark.parametrize(
        "body",
        ["a", '{"key": "Größe — 日本語 🔥"}', " \t\r\n ", "<&>", "x" * 262_144],
        ids=lambda body: repr(body)[:20],
    )
    def test_message_comes_back_as_it_was_sent(self, queue: Queue, body: str) -> None:
        queue.send(body)
        (message,) = queue.receive()
        assert (message.body, message.receives) == (body, 1)

    @pytest.mark.parametrize(
        "body",
        ["", "x" * 262_145, "é" * 131_073, "\x00", "a\x0bb", "\ud800", "\uffff"],
        ids=lambda body: repr(body)[:9],
    )
    def test_message_that_no_queue_carries_is_refused(self, queue: Queue, body: str) -> None:
        with pytest.raises(InvalidInputError):
            queue.send(body)
        assert queue.waiting() == 0

    @pytest.mark.parametrize("delay", [-1, 901])
    def test_delay_out_of_range_is_refused(self, queue: Queue, delay: int) -> None:
        with pytest.raises(InvalidInputError, match="delay_seconds"):
            queue.send("a", delay_seconds=delay)

    @pytest.mark.parametrize(("limit", "hide"), [(0, 1), (11, 1), (1, -1), (1, 43_201)])
    def test_receiving_out_of_range_is_refused(self, queue: Queue, limit: int, hide: int) -> None:
        with pytest.raises(InvalidInputError):
            queue.receive(limit=limit, hide_seconds=hide)

    def test_equal_messages_are_all_delivered(self, queue: Queue) -> None:
        for _ in range(3):
            queue.send("same")
        messages = queue.receive()
        assert [message.body for message in messages] == ["same"] * 3
        assert len({message.receipt for message in messages}) == 3

    def test_no_more_than_the_limit_is_received(self, queue: Queue) -> None:
        for number in range(12):
            queue.send(str(number))
        first, second = queue.receive(limit=4), queue.receive()
        assert (len(first), len(second)) == (4, 8)
        assert {int(message.body) for message in (*first, *second)} == set(range(12))

    def test_received_message_is_hidden_from_others(self, queue: Queue) -> None:
        queue.send("a")
        assert len(queue.receive(hide_seconds=300)) == 1
        assert queue.receive() == []
        assert queue.waiting() == 1

    def test_message_comes_again_after_its_hiding_and_counts_deliveries(self, queue: Queue) -> None:
        queue.send("a")
        assert [queue.receive(hide_seconds=0)[0].receives for _ in range(3)] == [1, 2, 3]

    def test_delayed_message_waits(self, queue: Queue) -> None:
        queue.send("a", delay_seconds=900)
        assert queue.receive() == []
        assert queue.waiting() == 1

    def test_done_message_is_gone(self, queue: Queue) -> None:
        queue.send("a")
        (message,) = queue.receive(hide_seconds=300)
        queue.done(message.receipt)
        assert queue.waiting() == 0

    def test_done_twice_does_nothing(self, queue: Queue) -> None:
        queue.send("a")
        (message,) = queue.receive()
        queue.done(message.receipt)
        queue.send("b")
        queue.done(message.receipt)
        assert [message.body for message in queue.receive()] == ["b"]

    def test_retried_message_comes_back_with_one_delivery_more(self, queue: Queue) -> None:
        queue.send("a")
        (message,) = queue.receive(hide_seconds=300)
        queue.retry(message.receipt)
        (again,) = queue.receive(hide_seconds=300)
        assert (again.body, again.receives) == ("a", 2)
        queue.done(again.receipt)
        assert queue.waiting() == 0

    def test_retried_message_waits_for_its_delay(self, queue: Queue) -> None:
        queue.send("a")
        (message,) = queue.receive(hide_seconds=300)
        queue.retry(message.receipt, delay_seconds=300)
        assert queue.receive() == []
        assert queue.waiting() == 1

    def test_retrying_a_message_that_is_gone_does_nothing(self, queue: Queue) -> None:
        queue.send("a")
        (message,) = queue.receive()
        queue.done(message.receipt)
        queue.retry(message.receipt)
        assert queue.receive() == []

    @pytest.mark.parametrize("receipt", ["nonsense", "1:1", "²:1"])
    def test_unknown_receipt_is_ignored(self, queue: Queue, receipt: str) -> None:
        queue.send("a")
        queue.done(receipt)
        queue.retry(receipt)
        assert queue.waiting() == 1

    def test_each_message_goes_to_one_of_several_receivers(self, queue: Queue) -> None:
        for number in range(40):
            queue.send(str(number))

        def take() -> list[str]:
            taken: list[str] = []
            while messages := queue.receive(limit=3, hide_seconds=300):
                taken.extend(message.body for message in messages)
                for message in messages:
                    queue.done(message.receipt)
            return taken

        with ThreadPoolExecutor(3) as pool:
            bodies = [body for taken in [pool.submit(take) for _ in range(3)] for body in taken.result()]
        assert sorted(map(int, bodies)) == list(range(40))
        assert queue.waiting() == 0
