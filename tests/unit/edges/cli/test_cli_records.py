"""`opx search --receipt`, `opx receipt`, `opx audit` and `opx gaps`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cli_support import Opx

DISK = "# Disk full on Linux hosts\n\nFind the biggest directories. Delete rotated logs. Grow the volume."
QUESTION = "disk full on linux hosts"
ESPRESSO = "brew espresso on mondays"
SURE = ("--min-confidence", "0.7")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    """One folder for the tests that add no document."""
    opx = Opx(tmp_path_factory.mktemp("shared"))
    opx.write("runbooks/disk.md", DISK)
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    opx("search", ESPRESSO, *SURE)
    return opx


@pytest.fixture
def receipt(shared: Opx, tmp_path: Path) -> Path:
    path = tmp_path / "receipt.json"
    assert shared("search", QUESTION, "--receipt", path).exit_code == 0
    return path


class TestReceipt:
    def test_replay_on_the_same_corpus_is_the_same(self, shared: Opx, receipt: Path) -> None:
        found = shared("receipt", "replay", receipt)
        assert (found.exit_code, found.stdout.startswith("the same answer")) == (0, True)

    def test_replay_after_a_new_document_shows_it(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        opx.write("runbooks/disk.md", DISK)
        opx("ingest", tmp_path / "docs")
        opx("search", QUESTION, "--receipt", tmp_path / "r.json")
        opx.write("runbooks/disk2.md", DISK + " Or ask the storage team about disks of linux hosts that are full.")
        opx("ingest", tmp_path / "docs")
        found = opx("receipt", "replay", tmp_path / "r.json")
        assert found.exit_code == 1
        assert "corpus changed since: 1 -> 2" in found.stdout
        assert "new" in found.stdout
        as_json = json.loads(opx("receipt", "replay", tmp_path / "r.json", "--json").stdout)
        assert (as_json["verdict"], as_json["causes"]) == ("changed", ["corpus changed since: 1 -> 2"])

    def test_a_tampered_receipt_is_reported(self, shared: Opx, receipt: Path) -> None:
        receipt.write_text(receipt.read_text().replace(QUESTION, "disk full on all hosts"))
        found = shared("receipt", "replay", receipt)
        assert found.exit_code == 4
        assert "changed after it was issued" in found.stderr

    def test_a_forged_receipt_is_detected_by_the_audit_log(self, shared: Opx, receipt: Path) -> None:
        from opx.retrieval.receipts import _hash_of_results
        from tests.unit.retrieval.test_receipts import resealed

        made_up = json.loads(receipt.read_text())
        made_up["results"][0]["contentHash"] = "0" * 64
        made_up["answerHash"] = _hash_of_results(made_up["results"])
        receipt.write_text(resealed(made_up))
        found = shared("receipt", "replay", receipt)
        assert found.exit_code == 4
        assert "audit log" in found.stderr

    def test_file_that_is_no_receipt_is_refused(self, shared: Opx, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"\xff\xfe")
        assert shared("receipt", "replay", path).exit_code == 2

    def test_there_is_none_where_nothing_is_recorded(self, shared: Opx, tmp_path: Path) -> None:
        found = shared("search", QUESTION, "--receipt", tmp_path / "r.json", OPX_AUDIT_DAYS="0")
        assert found.exit_code == 2
        assert "OPX_AUDIT_DAYS" in found.stderr


class TestAudit:
    def test_questions_are_listed_without_their_text(self, shared: Opx) -> None:
        found = shared("audit")
        assert found.exit_code == 0
        assert "global" in found.stdout
        assert "espresso" not in found.stdout

    def test_a_client_sees_its_own(self, shared: Opx) -> None:
        shared("--client", "acme", "search", QUESTION)
        records = json.loads(shared("--client", "acme", "audit", "--json").stdout)
        assert {record["who"] for record in records} == {"client:acme"}
        assert "no records" in shared("--client", "other", "audit").stdout
        assert len(json.loads(shared("audit", "--json").stdout)) > len(records)

    def test_they_are_found_by_document(self, shared: Opx) -> None:
        (document,) = json.loads(shared("list", "--json").stdout)
        found = json.loads(shared("audit", "--document", document["documentId"], "--json").stdout)
        assert found
        assert "no records" in shared("audit", "--document", "ffffffff").stdout


class TestGaps:
    def test_unanswered_questions_are_listed(self, shared: Opx) -> None:
        found = shared("gaps")
        assert found.exit_code == 0
        assert ESPRESSO in found.stdout
        assert "no gaps" in shared("--client", "other", "gaps").stdout

    def test_a_command_warns_after_the_answer_of_one_that_it_can_not_record(self, shared: Opx, tmp_path: Path) -> None:
        file = tmp_path / "knowledge.yaml"
        text = Path("corpus/knowledge.yaml").read_text(encoding="utf-8")
        file.write_text(text + "\nowners: {nobody: {unknown: x}}\n", encoding="utf-8")
        found = shared("search", "tea on tuesdays", *SURE, OPX_KNOWLEDGE_FILE=str(file))
        assert "not recorded" not in found.stdout
        assert "this question is not among the gaps" in found.stderr

    def test_a_long_question_is_shortened_in_the_table_alone(self, tmp_path: Path) -> None:
        opx, question = Opx(tmp_path), "why is the espresso of mondays cold " * 8
        opx.write("runbooks/disk.md", DISK)
        opx("ingest", tmp_path / "docs")
        opx("search", question, *SURE)
        line = opx("gaps").stdout.splitlines()[1]
        assert line.endswith(question[:97].rsplit(" ", 1)[0] + "…")
        assert json.loads(opx("gaps", "--json").stdout)[0]["question"].startswith(question[:280])

    def test_a_binary_file_is_no_gap(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        opx.write("runbooks/disk.md", DISK)
        opx("ingest", tmp_path / "docs")
        for stdin in ("\ufffd\x01\x02\ufffda\ufffd" * 1000, "\x7fELF\x02\x01\x01\0\0\ufffd\ufffd\x10\x11\x12" * 100):
            opx("search", "-", *SURE, stdin=stdin)
        assert "no gaps" in opx("gaps").stdout

    def test_report_is_written(self, shared: Opx, tmp_path: Path) -> None:
        assert shared("gaps", "--report", tmp_path / "report.md").exit_code == 0
        assert ESPRESSO in (tmp_path / "report.md").read_text()

    def test_check_closes_nothing_that_has_no_answer(self, shared: Opx) -> None:
        assert "1 gap checked, 0 closed" in shared("gaps", "check").stdout

    def test_ingested_document_closes_a_gap(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        opx.write("runbooks/disk.md", DISK)
        opx("ingest", tmp_path / "docs")
        assert opx("search", ESPRESSO, *SURE).exit_code == 1
        opx.write("runbooks/coffee.md", "# Brew espresso on Mondays\n\nGrind, tamp, brew.")
        found = opx("ingest", tmp_path / "docs")
        assert f"closed gap: {ESPRESSO}  <- Brew espresso on Mondays" in found.stdout
        assert "no gaps" in opx("gaps").stdout
        assert "a document answers it" in opx("gaps", "--all").stdout

    def test_absent_name_is_shown_in_the_place_of_the_question(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        opx.write("runbooks/queue.md", "# QueueHighWarning\n\nDrain the queue.")
        opx("ingest", tmp_path / "docs")
        for question in ("alert QueueHighCritical", "the alert QueueHighCritical fires, what now"):
            opx("search", question)
        found = opx("gaps").stdout
        assert "no page for alert QueueHighCritical; nearest sibling: QueueHighWarning" in found
        assert "2x" in found
        opx.write("runbooks/critical.md", "# QueueHighCritical\n\nStop the producers.")
        assert "closed gap: alert QueueHighCritical  <- QueueHighCritical" in opx("ingest", tmp_path / "docs").stdout

    def test_they_are_closed_and_ignored_by_hand(self, tmp_path: Path) -> None:
        opx = Opx(tmp_path)
        opx.write("runbooks/disk.md", DISK)
        opx("ingest", tmp_path / "docs")
        opx("search", ESPRESSO, *SURE)
        (gap,) = json.loads(opx("gaps", "--json").stdout)
        assert opx("gaps", "close", gap["gapId"][:8]).exit_code == 2  # nobody knows why
        assert opx("gaps", "close", gap["gapId"][:8], "--because", "off topic").exit_code == 0
        assert "no gaps" in opx("gaps").stdout
        opx("search", ESPRESSO, *SURE)
        assert json.loads(opx("gaps", "--json").stdout)[0]["count"] == 2  # open again
        assert opx("gaps", "ignore", gap["gapId"]).exit_code == 0
        opx("search", ESPRESSO, *SURE)
        assert "no gaps" in opx("gaps").stdout
        assert opx("gaps", "ignore", "ffff").exit_code == 2
        assert opx("gaps", "assign", gap["gapId"], "platform").exit_code == 0
        assert opx("gaps", "reopen", gap["gapId"]).exit_code == 0
        (found,) = json.loads(opx("gaps", "--owner", "platform", "--json").stdout)
        assert (found["status"], found["owner"], found["settledBy"]) == ("open", "platform", "")

    def test_an_invalid_owner_is_reported_and_prevents_no_answer(self, shared: Opx, tmp_path: Path) -> None:
        from opx.runtime.knowledge_file import _default_file

        path = tmp_path / "knowledge.yaml"
        path.write_text(_default_file()[0].read_text() + "\nowners: {nothing/here: x}\n")
        assert shared("search", QUESTION, OPX_KNOWLEDGE_FILE=str(path)).exit_code == 0
        found = shared("gaps", OPX_KNOWLEDGE_FILE=str(path))
        assert found.exit_code == 2
        assert f"{path}:" in found.stderr
