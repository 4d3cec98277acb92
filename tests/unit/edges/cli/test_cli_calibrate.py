"""`opx calibrate`: fits the confidence models to a folder's corpus, shows the models in use, and discards them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.edges.cli.main import Launch, cli
from opx.errors import ForbiddenError, StoreUnavailableError
from opx.operations.calibration import Calibrate, calibrate
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.ports.queues import ThisProcess
from opx.ports.tables import LIFECYCLE
from opx.settings import Settings
from opx.system import bootstrap, connect
from tests.support.calibration_support import ShiftedWords, a_corpus

Run = Callable[..., Result]


def services_of(settings: Settings) -> System:
    return bootstrap(settings, embedder=ShiftedWords())


@pytest.fixture
def opx(tmp_path: Path) -> Run:
    a_corpus(tmp_path / "home").services.close()

    def run(*arguments: str) -> Result:
        line = ["--home", str(tmp_path / "home"), *arguments]
        return CliRunner().invoke(cli, line, obj=Launch(services_of, connect, {}), prog_name="opx")

    return run


def test_it_calibrates_and_shows_the_models_in_use(opx: Run) -> None:
    assert "shipped, for any embedding model" in opx("calibrate", "--show").stdout
    made = opx("calibrate")
    assert made.exit_code == 0
    assert made.stdout.startswith("calibrated with 120 questions about 40 documents (log loss 0.")
    assert "querying: question 25 of 120" in made.stderr
    shown = opx("calibrate", "--show").stdout
    assert "calibrated on this corpus" in shown
    assert "120 questions about 40 documents" in shown
    assert "mapped to those of the shipped models" in shown


def test_the_status_names_the_models(opx: Run) -> None:
    assert json.loads(opx("status", "--json").stdout)["confidence"] == "general"
    opx("calibrate")
    assert json.loads(opx("status", "--json").stdout)["confidence"] == "calibrated"


def test_discarding_goes_back_to_the_shipped_models(opx: Run) -> None:
    opx("calibrate")
    assert opx("calibrate", "--discard").stdout == "the shipped models are in use\n"
    assert opx("calibrate", "--discard").stdout == "the shipped models are in use, as before\n"
    assert "shipped, for any embedding model" in opx("calibrate", "--show").stdout


def test_json_has_the_figures(opx: Run) -> None:
    report = json.loads(opx("calibrate", "--json").stdout)
    assert report["loss"] < report["lossBefore"]
    status = json.loads(opx("calibrate", "--show", "--json").stdout)
    assert status["models"] == "calibrated"
    assert status["calibration"]["mapsCosines"] is True
    assert status["calibration"]["loss"] == report["loss"]
    assert json.loads(opx("calibrate", "--discard", "--json").stdout)["discarded"] is True


def test_models_that_stay_are_exit_code_1_with_both_figures(opx: Run) -> None:
    assert opx("calibrate").exit_code == 0
    again = opx("calibrate")
    assert again.exit_code == 1
    assert "the models of confidence stay as they are: new models would not be better" in again.stdout
    assert "(log loss 0." in again.stdout
    assert "of the models before 0." in again.stdout


def test_show_and_discard_together_are_refused(opx: Run) -> None:
    assert opx("calibrate", "--show", "--discard").exit_code == 2


def test_a_damaged_calibration_is_reported(opx: Run, tmp_path: Path) -> None:
    with services_of(Settings(home=str(tmp_path / "home"))) as system:
        row = {"subject": "index", "entry": "calibration#shifted/64", "calibration": {"rules": 0}}
        system.tables.table(LIFECYCLE).put(row)
    assert "can't be read and is ignored" in opx("calibrate", "--show").stdout
    assert "can't be read and is ignored" in opx("status").stdout


def test_a_client_can_not_calibrate_for_all(tmp_path: Path) -> None:
    with a_corpus(tmp_path / "home", 3).services as system:
        client = LocalClient(Context(system, Caller(Identity("acme"))))
        with pytest.raises(ForbiddenError, match="models of confidence there: it belongs to global"):
            client.call(calibrate, Calibrate())


class Sent:
    """A queue of a function."""

    def __init__(self) -> None:
        self.bodies: list[str] = []

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        assert not delay_seconds
        self.bodies.append(body)


def test_calibration_is_enqueued_where_functions_build_indexes(tmp_path: Path) -> None:
    sent = Sent()
    functions = ThisProcess(rebuilds=sent)  # type: ignore[arg-type]
    with bootstrap(Settings(home=str(tmp_path)), embedder=ShiftedWords(), functions=functions) as system:
        report = calibrate(Context(system, Caller(Identity())), Calibrate())
    assert report.asked
    assert [json.loads(body) for body in sent.bodies] == [{"do": "calibrate"}]


def test_an_unavailable_store_changes_nothing(opx: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from opx.retrieval.calibration.questions import EvidenceCollector

    def away(*_: object) -> None:
        raise StoreUnavailableError("the index is away")

    opx("calibrate")
    before = opx("calibrate", "--show").stdout
    monkeypatch.setattr(EvidenceCollector, "_searched", away)
    failed = opx("calibrate")
    assert (failed.exit_code, failed.stderr.splitlines()[-1]) == (2, "opx: the index is away")
    assert opx("calibrate", "--show").stdout == before
