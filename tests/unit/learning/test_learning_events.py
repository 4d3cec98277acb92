"""Events about what work taught, as they are read: whose they are, and what is no such event."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opx.domain.ids import iso_time
from opx.domain.learning import CheckpointType, EntryType
from opx.domain.scopes import Identity, Scope
from opx.edges.learning_events import LAST_WAIT, handle_message, learn
from opx.errors import EntryNotFoundError, InvalidInputError, InvalidScopeError, StoreUnavailableError
from opx.learning.fields import EntryKind, LearningEvent, checkpoint_message, read_event
from opx.ports.queues import ThisProcess
from opx.runtime.metrics import Metric
from opx.settings import Settings
from opx_testing.fake_time import FakeTime
from tests.support.fakes import Measured
from tests.support.lessons import a_school, sqlite_tables

NOW = 1_790_000_000.0
HOUR, DAY = 3_600, 86_400
DETAIL = {"gate_type": "security_review", "approved_approach": "one queue a client"}


def an_event(kind: str = "GateApproved", detail: Any = None, **more: Any) -> str:
    given = {"gate_type": "g", "approved_approach": "a"} if detail is None else detail
    return json.dumps(
        {"version": "0", "id": "1", "source": "opx.learning", "detail-type": kind, "detail": given, **more}
    )


def identity_of(configured: Identity | None = None, **detail: str) -> Identity:
    return read_event(an_event(detail=detail), configured or Identity()).identity


class TestOwnership:
    def test_an_event_belongs_to_the_project_that_it_names(self) -> None:
        assert identity_of(client_id="acme", project_id="shop") == Identity("acme", "shop")

    def test_without_a_client_it_is_the_installations(self) -> None:
        assert identity_of(Identity("acme"), project_id="shop") == Identity("acme", "shop")
        assert identity_of(Identity("acme", "shop")) == Identity("acme", "shop")
        assert identity_of(project_id="shop") == Identity()

    @pytest.mark.parametrize("client", ["umbrella", "acme2"])
    def test_of_another_client_than_the_installations_it_is_refused(self, client: str) -> None:
        with pytest.raises(InvalidScopeError, match=client):
            identity_of(Identity("acme"), client_id=client)

    @pytest.mark.parametrize("client", ["a/b", "..", "global", "x" * 65])
    def test_a_malformed_client_is_refused(self, client: str) -> None:
        with pytest.raises(InvalidScopeError):
            identity_of(client_id=client)

    def test_a_requested_checkpoint_has_the_scope_of_the_request(self) -> None:
        for scope in (Scope(), Scope("acme"), Scope("acme", project_id="shop")):
            event = read_event(checkpoint_message(scope, "p", CheckpointType.MANUAL), Identity())
            assert event.identity == Identity(scope.client_id, scope.project_id)
            assert (event.kind, event.detail["project_id"]) == (EntryKind.CHECKPOINT, "p")

    def test_a_scope_can_not_be_named_to_get_around_the_client(self) -> None:
        message = checkpoint_message(Scope("umbrella"), "p", CheckpointType.MANUAL)
        with pytest.raises(InvalidScopeError, match="umbrella"):
            read_event(message, Identity("acme"))


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        '"text"',
        "[" * 5000,
        json.dumps({"source": "aws.s3", "detail-type": "GateApproved", "detail": {}}),
        an_event("Nothing"),
        an_event(detail=[]),
        an_event(detail="x"),
        an_event(detail={"client_id": 5}),
        json.dumps({"reason": "r", "event": "not an event"}),
    ],
)
def test_malformed_event_is_refused(body: str) -> None:
    with pytest.raises(InvalidInputError):
        read_event(body, Identity())


def test_event_that_was_set_aside_is_read_like_the_original() -> None:
    event = json.loads(an_event())
    wrapped = json.dumps({"reason": "it was refused", "event": event})
    assert read_event(wrapped, Identity()) == read_event(json.dumps(event), Identity())


class TestEntries:
    """Events are validated like requests, with the fields of their type."""

    @pytest.mark.parametrize(
        ("kind", "detail", "named"),
        [
            (
                "GateApproved",
                {"solution_steps": []},
                "'solution_steps' doesn't go with gate_approval; there are: project_id, gate",
            ),
            ("FailureSolved", {"success_verified": "yes"}, "success_verified must be true or false, not 'yes'"),
            ("WarningNoted", {"effect": "exploded"}, "effect must be one of no_effect, made_worse, not 'exploded'"),
            ("WarningNoted", {"story": "x"}, "unknown field story; there are: "),
            (
                "GateRejected",
                {"human_feedback": "x" * 8_001},
                "human_feedback may have at most 8,000 characters, not 8,001",
            ),
            ("FailureSolved", {"solution_steps": "x"}, "needs failure_description"),
        ],
    )
    def test_invalid_field_is_named(self, tmp_path: Path, time: FakeTime, kind: str, detail: Any, named: str) -> None:
        school = a_school(tmp_path, sqlite_tables(tmp_path, time), time)
        with pytest.raises(InvalidInputError, match=named):
            learn(school.services, read_event(an_event(kind, detail), Identity("acme", "one")))
        school.services.index.close()  # type: ignore[attr-defined]

    def test_a_single_step_may_be_a_text(self, tmp_path: Path, time: FakeTime) -> None:
        school = a_school(tmp_path, sqlite_tables(tmp_path, time), time)
        detail = {"failure_description": "It hangs", "solution_steps": "Restart it"}
        learn(school.services, read_event(an_event("FailureSolved", detail), Identity("acme", "one")))
        assert school.capture().entries()[0].solution_steps == ("Restart it",)
        school.services.index.close()  # type: ignore[attr-defined]


class Captured:
    """Fake of the capture service that records its calls."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []

    def capture(self, entry_type: EntryType, given: dict[str, Any]) -> str:
        self.entries.append({"entry_type": entry_type, **given})
        return "entry"

    def verify(self, entry_id: str, worked: bool, effect: str = "", incident: str = "") -> Any:
        raise EntryNotFoundError(entry_id)


class Away:
    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        raise StoreUnavailableError("can't be reached")


def a_system(captured: Captured, set_aside: Any = None) -> Any:
    times: list[float | None] = []

    def capture(identity: Identity, at: float | None = None) -> Captured:
        times.append(at)
        return captured

    return SimpleNamespace(
        settings=Settings(),
        clock=lambda: NOW,
        learning=SimpleNamespace(capture=capture),
        ports=SimpleNamespace(functions=ThisProcess(learning_failed=set_aside)),
        times=times,
    )


@pytest.mark.parametrize(
    ("time", "at"),
    [
        ("2026-09-21T13:00:00Z", 1_789_995_600.0),
        ("2026-09-21T15:00:00+02:00", 1_789_995_600.0),
        ("2099-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("yesterday", None),
        (["2026"], None),
        (None, None),
    ],
)
def test_an_entry_has_the_time_of_its_event(time: object, at: float | None) -> None:
    system = a_system(Captured())
    learn(system, read_event(an_event(time=time), Identity()))
    assert system.times == [at]


@pytest.mark.parametrize("later", [0, 1, 2, 300], ids=lambda days: f"{days} days later")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_replayed_events_count_once_whenever_they_are_replayed(
    tmp_path: Path, time: FakeTime, later: int, order: tuple[int, ...]
) -> None:
    school = a_school(tmp_path, sqlite_tables(tmp_path, time), time)
    times = [time.now, time.now + 20 * HOUR, time.now + 30 * HOUR]  # the third is another occurrence
    body = [an_event(time=iso_time(at), detail=DETAIL) for at in times]
    for at, each in zip(times, body, strict=True):
        time.now = at
        learn(school.services, read_event(each, Identity("acme", "one")))
    first = school.capture().entries()
    time.now += later * DAY
    for one in order:
        learn(school.services, read_event(body[one], Identity("acme", "one")))
    assert (school.capture().entries(), len(first)) == (first, 2)
    school.services.index.close()  # type: ignore[attr-defined]


def test_an_occurrence_that_is_given_counts() -> None:
    captured = Captured()
    detail = {"gate_type": "g", "approved_approach": "a", "occurrence": "run-1"}
    learn(a_system(captured), read_event(an_event(detail=detail, time="2020-01-01T00:00:00Z"), Identity()))
    assert captured.entries[0]["occurrence"] == "run-1"


def test_a_checkpoint_among_other_events_is_refused() -> None:
    event = LearningEvent(EntryKind.CHECKPOINT, Identity(), {})
    with pytest.raises(InvalidInputError, match="checkpoints"):
        learn(a_system(Captured()), event)


class TestMessages:
    def handled(self, *bodies: str, set_aside: Any = None, receives: int = 1) -> tuple[list[bool], Measured]:
        measured, system = Measured(), a_system(Captured(), set_aside)
        return [handle_message(body, receives, system, learn, measured) for body in bodies], measured

    def test_one_that_can_not_be_set_aside_comes_again_and_the_others_are_done(self) -> None:
        done, measured = self.handled(an_event(), "nonsense", an_event(), set_aside=Away())
        assert done == [True, False, True]
        assert measured.values[Metric.LEARNING_EVENTS] == [1, 1, 1]
        assert measured.values[Metric.LEARNING_REFUSED] == [1]

    def test_without_a_place_for_them_refused_ones_come_again(self) -> None:
        assert self.handled("nonsense")[0] == [False]

    def test_unexpected_error_is_logged_and_the_event_comes_again(self, caplog: pytest.LogCaptureFixture) -> None:
        def broken(services: Any, event: LearningEvent) -> None:
            raise ZeroDivisionError

        assert not handle_message(an_event(), 1, a_system(Captured()), broken, Measured())
        assert "ZeroDivisionError" in caplog.text

    def test_a_verification_waits_for_its_entry_a_few_times(self) -> None:
        body = an_event("Verified", {"entry_id": "x", "worked": True})
        assert self.handled(body, receives=LAST_WAIT - 1)[0] == [False]

    def test_every_kind_of_event_that_captures_has_a_type(self) -> None:
        from opx.edges.learning_events import _CAPTURED

        assert set(_CAPTURED.values()) == set(EntryType)
        assert set(EntryKind) - set(_CAPTURED) == {EntryKind.VERIFIED, EntryKind.OUTCOME, EntryKind.CHECKPOINT}
