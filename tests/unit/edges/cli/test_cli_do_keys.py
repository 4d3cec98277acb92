"""Keys of `opx do` at a terminal: from step to step, copies, and outcomes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.edges.cli import do
from tests.support.cli_support import Opx
from tests.support.runbook_support import ALERT, PAGE, opx_with_runbook


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    return opx_with_runbook(tmp_path_factory.mktemp("do"))


@pytest.fixture
def at_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(do, "_is_terminal", lambda: True)


def pressed(opx: Opx, keys: str, *arguments: str) -> str:
    """The output for these keys."""
    found = opx("do", *(arguments or ALERT), stdin=keys)
    assert found.exit_code == 0, found.output
    return found.stdout


def copies(shown: str) -> list[str]:
    """The strings that a terminal puts into the clipboard."""
    return [base64.b64decode(part.partition("\a")[0]).decode() for part in shown.split("\x1b]52;c;")[1:]]


@pytest.mark.usefixtures("at_terminal")
class TestKeys:
    def test_enter_and_n_go_on_and_b_goes_back(self, opx: Opx) -> None:
        shown = pressed(opx, "n\nbq")
        assert [shown.count(f"Step {number} of") for number in (1, 2, 3)] == [1, 2, 1]

    def test_a_number_goes_to_its_step(self, opx: Opx) -> None:
        assert "Step 2 of" not in pressed(opx, "3q")

    def test_an_unknown_number_changes_nothing(self, opx: Opx) -> None:
        found = opx("do", *ALERT, stdin="8nq")
        assert "there is no step '8'" in found.stderr
        assert "Step 2 of" in found.stdout

    def test_the_last_step_is_announced(self, opx: Opx) -> None:
        assert "That was the last step." in pressed(opx, "3nq")

    def test_the_end_of_input_quits(self, opx: Opx) -> None:
        assert "Step 1 of" in pressed(opx, "")

    def test_y_copies_the_filled_command_and_nothing_else(self, opx: Opx) -> None:
        assert copies(pressed(opx, "yq")) == ["kubectl -n prod exec  web-1 -- kafka-consumer-groups.sh --describe"]

    def test_copying_one_of_several_commands_prompts_for_its_number(self, opx: Opx) -> None:
        assert copies(pressed(opx, "2y2q")) == ["kubectl -n prod get pods"]
        assert copies(pressed(opx, "2y7q")) == []

    def test_a_destructive_command_is_copied_only_after_another_y(self, opx: Opx) -> None:
        assert copies(pressed(opx, "3ynq")) == []
        assert copies(pressed(opx, "3yyq")) == ["kubectl -n prod delete pvc data"]

    def test_a_command_with_control_characters_is_not_copied(self, opx: Opx) -> None:
        shown = pressed(opx, "yq", "GroupIsSlow", "--labels", json.dumps({"pod": "p\x1b[2J"}))
        assert copies(shown) == []
        assert "type it by hand" in shown

    def test_l_lists_the_steps_with_their_effects(self, opx: Opx) -> None:
        shown = pressed(opx, "lq")
        assert "> 1  Look at the group.  read" in shown
        assert "  3  Delete its volume.  destructive" in shown

    def test_o_records_the_outcome_of_the_step(self, opx: Opx) -> None:
        assert "Recorded: resolved." in pressed(opx, "orq")
        assert "Nothing was recorded." in pressed(opx, "oxq")

    def test_print_executes_nothing_and_prompts_for_nothing(self, opx: Opx) -> None:
        shown = pressed(opx, "", *ALERT, "--print")
        assert "[q]uit" not in shown
        assert "Step 3 of" in shown

    def test_a_document_that_vanished_meanwhile_ends_it_with_an_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opx = Opx(tmp_path)
        page = opx.write("runbooks/kafka-lag.md", PAGE)
        opx("ingest", tmp_path / "docs")
        shown = do.step_lines

        def deleted_behind(walk: do.StepWalk, at: int) -> Iterator[str]:
            yield from list(shown(walk, at))
            page.unlink()
            opx("delete", walk.document.document_id, "--yes")

        monkeypatch.setattr(do, "step_lines", deleted_behind)
        found = opx("do", "consumer falls behind kafka restart", stdin="nq")
        assert found.exit_code == 2
        assert "the document was deleted meanwhile" in found.stderr
