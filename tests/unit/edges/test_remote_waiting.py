from __future__ import annotations

from collections.abc import Callable, Sequence

from opx.edges.loading import KEYS_A_ROUND, KEYS_AT_ONCE, LONGEST_PAUSE_SECONDS, Waiting
from opx.ingestion.events import Result
from opx.ingestion.states import ObjectPhase, ObjectState

WAITING, INGESTED, FAILED = ObjectPhase.WAITING, ObjectPhase.INGESTED, ObjectPhase.FAILED


class Workers:
    """Reports the states that `phase` returns; time passes only in pauses."""

    def __init__(self, phase: Callable[[str, float], ObjectPhase]) -> None:
        self.phase = phase
        self.clock = 0.0
        self.calls: list[Sequence[str]] = []
        self.pauses: list[float] = []

    def states(self, keys: Sequence[str]) -> list[ObjectState]:
        self.calls.append(keys)
        found = [(key, self.phase(key, self.clock)) for key in keys]
        return [
            ObjectState(key, phase, mark="new", reason="bad") if phase is FAILED else ObjectState(key, phase)
            for key, phase in found
        ]

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock += seconds

    def wait(self, keys: Sequence[str], known: dict[str, str] | None = None, patience: float = 60) -> dict[str, Result]:
        waiting = Waiting(self.states, pause=self.pause, now=lambda: self.clock, patience=patience)
        return {outcome.object_key: outcome.result for outcome in waiting.outcomes(keys, known or {})}


def test_without_objects_nothing_is_polled() -> None:
    workers = Workers(lambda key, now: INGESTED)
    assert workers.wait([]) == {}
    assert workers.calls == []


def test_settled_objects_are_not_polled_again() -> None:
    workers = Workers(lambda key, now: INGESTED if key == "a" or now > 2 else WAITING)
    assert workers.wait(["b", "a", "a"]) == {"a": Result.INGESTED, "b": Result.INGESTED}
    assert workers.calls[0] == ["a", "b"]
    assert all(keys == ["b"] for keys in workers.calls[1:])


def test_a_failure_from_before_does_not_count() -> None:
    workers = Workers(lambda key, now: FAILED)
    assert workers.wait(["a"], {"a": "old"}) == {"a": Result.FAILED}
    assert workers.wait(["a"], {"a": "new"}) == {}


def test_objects_without_an_outcome_are_given_up_after_the_patience() -> None:
    workers = Workers(lambda key, now: WAITING)
    assert workers.wait(["a"], patience=60) == {}
    assert 60 <= workers.clock <= 60 + LONGEST_PAUSE_SECONDS


def test_patience_outlasts_the_attempts_of_the_system() -> None:
    workers = Workers(lambda key, now: FAILED if now > 620 else WAITING)
    waiting = Waiting(workers.states, pause=workers.pause, now=lambda: workers.clock)
    assert [outcome.result for outcome in waiting.outcomes(["a"], {})] == [Result.FAILED]


def test_patience_begins_anew_with_every_document() -> None:
    settled = {"a": 50, "b": 100, "c": 150}
    workers = Workers(lambda key, now: INGESTED if now >= settled[key] else WAITING)
    assert len(workers.wait(list(settled), patience=60)) == 3


def test_pauses_grow_while_nothing_happens() -> None:
    workers = Workers(lambda key, now: INGESTED if now > 30 else WAITING)
    workers.wait(["a"])
    assert workers.pauses == sorted(workers.pauses)
    assert workers.pauses[-1] == LONGEST_PAUSE_SECONDS


def test_many_objects_are_polled_in_batches_in_rotation() -> None:
    keys = [f"{number:04d}" for number in range(2 * KEYS_A_ROUND)]
    workers = Workers(lambda key, now: WAITING if key < keys[KEYS_A_ROUND] and now < 1 else INGESTED)
    assert len(workers.wait(keys)) == len(keys)
    assert max(map(len, workers.calls)) == KEYS_AT_ONCE
    second_round = workers.calls[KEYS_A_ROUND // KEYS_AT_ONCE]
    assert second_round[0] == keys[KEYS_A_ROUND]
