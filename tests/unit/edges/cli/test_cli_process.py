"""Tests of the command as a separate process: streams, signals, imports and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from opx import __version__
from opx.edges.cli.main import Launch, run
from opx.system import connect
from tests.support.cli_support import HANGING, ROOT, Opx, environment

DOCUMENTS = 6


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for number in range(DOCUMENTS):
        opx.write(f"{number}.md", f"# Runbook {number}\n\nRestart service number {number} → done.\n")
    return opx


def finished(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def interrupted_while_embedding(opx: Opx, how: int) -> tuple[int, str]:
    """Ingest until the embedder hangs in the middle of the documents, then send the signal: exit code and stderr."""
    process = opx.start("ingest", opx.folder / "docs", hang_at=DOCUMENTS // 2)
    assert process.stderr is not None
    seen = ""
    while HANGING not in seen:
        line = process.stderr.readline()
        assert line, seen
        seen += line
    process.send_signal(how)
    code, _, errors = finished(process)
    return code, errors


def assert_complete(opx: Opx) -> None:
    code, output, errors = finished(opx.start("ingest", opx.folder / "docs"))
    assert (code, output.split(";")[0]) == (0, f"{DOCUMENTS} ingested, 0 unchanged, 0 deleted, 0 failed"), errors
    facts = json.loads(opx("status", "--json").stdout)
    assert (facts["documents"], facts["chunks"], facts["waiting"], facts["failed"]) == (DOCUMENTS, DOCUMENTS, 0, 0)
    assert "nothing changed" in opx("ingest", opx.folder / "docs").stdout


def test_a_killed_ingest_is_completed_by_the_next(opx: Opx) -> None:
    interrupted_while_embedding(opx, signal.SIGKILL)
    assert_complete(opx)


def test_ctrl_c_prints_how_to_continue_and_the_next_ingest_completes(opx: Opx) -> None:
    code, errors = interrupted_while_embedding(opx, signal.SIGINT)
    assert code == 130
    assert errors.endswith("opx: interrupted: what was finished is kept; run the same command again to go on\n")
    assert_complete(opx)


def test_results_go_to_stdout_and_progress_to_stderr(opx: Opx) -> None:
    code, output, errors = finished(opx.start("ingest", opx.folder / "docs"))
    assert code == 0
    assert output.count("\n") == 1
    assert errors.count("ingested   documents/docs/") == DOCUMENTS


def test_errors_leave_stdout_empty(opx: Opx) -> None:
    code, output, errors = finished(opx.start("search", "anything"))
    assert (code, output) == (2, "")
    assert errors.startswith("opx: no knowledge in ")
    assert errors.count("\n") == 1


def test_a_pipe_gets_no_escape_sequences(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    code, output, _ = finished(opx.start("search", "restart service", "--min-confidence", "0", "--explain"))
    assert code == 0
    assert "\x1b" not in output


def test_a_reader_that_goes_away_ends_the_command_quietly(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    reading, writing = os.pipe()
    os.close(reading)
    process = opx.start("search", "restart service", "--min-confidence", "0", stdout=writing)
    os.close(writing)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (141, "")


def test_help_into_a_closed_pipe_is_quiet(opx: Opx) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = opx.start("--help", stdout=writing)
    os.close(writing)
    assert process.communicate(timeout=60)[1] == ""


CLOSING = """
import os, sys
for number in (0, 1, 2):
    if str(number) in sys.argv[1]:
        os.close(number)
code = "from opx.system import command; command()"
os.execv(sys.executable, [sys.executable, "-c", code, *sys.argv[2:]])
"""


def closed(opx: Opx, numbers: str, *arguments: str) -> tuple[int, str, str]:
    """Runs the command without these standard streams: its exit code, output and errors."""
    line = [sys.executable, "-c", CLOSING, numbers, *arguments]
    env = environment(OPX_HOME=str(opx.home))
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=False, cwd=ROOT, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "arguments", [("categories",), ("list",), ("config",), ("--help",), ("--version",)], ids=" ".join
)
def test_a_closed_output_ends_the_command_quietly(opx: Opx, arguments: tuple[str, ...]) -> None:
    opx("ingest", opx.folder / "docs")
    code, output, errors = closed(opx, "1", *arguments)
    assert (code in (1, 141), output, errors) == (True, "", "")
    assert closed(opx, "012", *arguments) == (code, "", "")


def test_without_errors_and_input_the_output_is_the_same(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    assert closed(opx, "02", "list") == closed(opx, "", "list")
    assert closed(opx, "02", "show", "nowhere.md") == (2, "", "")


def test_errors_are_printed_without_an_output(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    code, _, errors = closed(opx, "1", "show", "nowhere.md")
    assert (code, errors.partition(":")[0]) == (2, "opx")


def test_an_empty_standard_input_stands_for_a_closed_one(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    assert closed(opx, "0", "search", "-")[::2] == (2, 'opx: the question is empty: opx search "what goes wrong"\n')


def test_a_console_that_knows_few_characters_gets_question_marks(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    env = environment(PYTHONIOENCODING="cp1252")
    code, output, errors = finished(opx.start("search", "restart service", "--min-confidence", "0", env=env))
    assert (code, errors) == (0, "")
    assert "Restart service number" in output
    assert "? done." in output


def test_json_for_a_console_that_knows_few_characters_is_escaped(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    env = environment(PYTHONIOENCODING="cp1252")
    _, output, _ = finished(opx.start("search", "restart service", "--min-confidence", "0", "--json", env=env))
    assert "→ done." in json.loads(output)["results"][0]["content"]


def test_a_question_in_another_encoding_is_no_error(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    question = opx.folder / "question"
    question.write_bytes(b"restart \xe9\xff service")
    with question.open("rb") as stdin:
        code, output, errors = finished(opx.start("search", "-", "--min-confidence", "0", stdin=stdin))
    assert (code, errors) == (0, "")
    assert output.startswith("1. Runbook")


def test_the_environment_names_the_home_folder(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    line = [sys.executable, "-c", "from opx.system import command; command()", "list", "--json"]
    done = subprocess.run(line, env=environment(OPX_HOME=str(opx.home)), capture_output=True, check=False, cwd=ROOT)
    assert len(json.loads(done.stdout)) == DOCUMENTS


def broken_services(settings: object) -> object:
    raise ZeroDivisionError("a bug")


def test_an_unexpected_error_is_one_line_with_a_hint_for_the_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["--home", str(tmp_path), "status"], Launch(broken_services, connect))  # type: ignore[arg-type]
    assert code == 2
    assert capsys.readouterr().err == "opx: unexpected ZeroDivisionError: a bug (for the traceback: opx -v ...)\n"


def test_verbose_shows_the_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["-v", "--home", str(tmp_path), "status"], Launch(broken_services, connect))  # type: ignore[arg-type]
    assert code == 2
    assert "Traceback" in capsys.readouterr().err


def modules_after(code: str, *arguments: str) -> set[str]:
    """Modules imported by a process that runs a program and exits."""
    code += "sys.stderr.write(' '.join(sys.modules))\n"
    line = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stderr.split())


def test_the_version_alone_imports_neither_click_nor_the_settings(opx: Opx) -> None:
    loaded = modules_after("import sys\nfrom opx.system import command\ncommand()\n", "--version")
    assert not {"click", "opx.settings", "opx.edges.cli.main", "msgspec"} & loaded


def test_the_version_is_that_of_the_package_on_either_way(opx: Opx) -> None:
    line = [sys.executable, "-c", "from opx.system import command; command()", "--version"]
    done = subprocess.run(line, env=environment(), capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == f"opx, version {__version__}\n" == opx("--version").stdout


def test_help_imports_neither_the_library_nor_rich() -> None:
    loaded = modules_after(
        "import sys\nfrom opx.edges.cli.main import Launch, run\n"
        "from opx.system import bootstrap, connect\nrun(['--help'], Launch(bootstrap, connect))\n"
    )
    assert "opx.edges.cli.main" in loaded
    heavy = {"numpy", "rich", "yaml", "tantivy", "onnxruntime"}
    heavy |= {"opx.operations", "opx.adapters", "opx.ports", "opx.ingestion"}
    assert not heavy & loaded


SEARCH = """
import sys
from array import array
from opx.system import bootstrap, connect
from opx.edges.cli.main import Launch, run

class Flat:
    model_id, dimension = "words/1", 64

    def embed_query(self, text):
        return array("f", [0.125] * 64)

code = run(sys.argv[1:], Launch(lambda settings: bootstrap(settings, embedder=Flat()), connect))
assert code == 0
"""


WRITING = tuple(
    f"opx.ingestion.{name}" for name in ("pipeline", "reading", "prepared", "chunking", "parsing", "worker")
)


def test_search_imports_nothing_for_ingestion(opx: Opx) -> None:
    opx("ingest", opx.folder / "docs")
    loaded = modules_after(SEARCH, "--home", str(opx.home), "search", "restart", "--min-confidence", "0")
    assert "opx.retrieval.query" in loaded
    assert not {name for name in loaded if name.startswith((*WRITING, "rich", "tiktoken", "bs4", "watchfiles"))}
