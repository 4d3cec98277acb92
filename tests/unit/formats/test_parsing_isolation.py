"""Readers of binary formats in a process of their own: limits, termination, and missing privileges."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

import pytest

from opx.formats.registry import parse
from opx.formats.sandbox import child
from opx.formats.sandbox import workspace as isolation
from opx.formats.sandbox.output import ReadingJob
from opx.formats.sandbox.workspace import Workspace
from opx.ports.models import ParsingLimits, ParsingTools
from tests.support.binary_files import PdfWriter, an_email, read, refused
from tests.support.parsing_support import a_category

JOB = ReadingJob("pdf", "a.pdf", pages=10, unpacked_bytes=1_000_000, images=0)


def a_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str) -> None:
    """Have the process run this code instead, with its limits set."""
    package = tmp_path / "opx_reader.py"
    package.write_text(
        "import json, sys\nfrom pathlib import Path\nfrom opx.formats.sandbox import child\n"
        "folder = Path(sys.argv[1])\ntask = json.loads((folder / child.JOB).read_text())\n"
        "child._limit(task['seconds'], task['memory_bytes'], task['job']['unpacked_bytes'])\n" + code
    )
    monkeypatch.setattr(isolation, "COMMAND", (sys.executable, str(package)))


def reason(limits: ParsingLimits) -> str:
    workspace = Workspace()
    workspace.write_input(iter([b"input"]))
    with pytest.raises(Exception, match=r"^a\.pdf: ") as caught:
        workspace.run(JOB, limits)
    return str(caught.value)


def test_a_reader_that_hangs_is_ended_and_the_limit_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_reader(monkeypatch, tmp_path, "import time\ntime.sleep(60)\n")
    assert "more than 0.2 seconds; split it, or raise OPX_PARSE_SECONDS" in reason(ParsingLimits(seconds=0.2))


def test_a_reader_that_calculates_too_long_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_reader(monkeypatch, tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGXCPU)\n")
    assert "OPX_PARSE_SECONDS" in reason(ParsingLimits())


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux bounds the memory of a process")
def test_a_reader_that_wants_too_much_memory_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = f"try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    sys.exit({child.NO_MEMORY})\n"
    a_reader(monkeypatch, tmp_path, code)
    assert "more than 256 MB of memory" in reason(ParsingLimits(memory_bytes=256 * 1024 * 1024))


def test_a_reader_that_crashes_is_a_document_that_can_not_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_reader(monkeypatch, tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert f"crashed (signal {signal.SIGSEGV.value})" in reason(ParsingLimits())


def test_a_reader_that_writes_too_much_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = (
        f"try:\n    (folder / 'big').write_bytes(bytes(2_000_000))\nexcept OSError:\n    sys.exit({child.NO_SPACE})\n"
    )
    a_reader(monkeypatch, tmp_path, code)
    assert "OPX_PARSE_UNPACKED_BYTES" in reason(ParsingLimits(unpacked_bytes=1_000_000))


def test_a_reader_has_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("OPX_HOME", "hidden")
    code = "import os\nnames = [n for n in os.environ if n.startswith(('AWS', 'OPX'))]\nsys.exit(len(names) and 77)\n"
    a_reader(monkeypatch, tmp_path, code)
    Workspace().run(JOB, ParsingLimits())


def test_nothing_is_left_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    message = an_email()
    message.add_attachment(PdfWriter().line(50, 700, "x").data(), "application", "pdf", filename="a.pdf")
    read(message.as_bytes(), "a.eml")
    refused(b"no pdf", "a.pdf")
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_on_disk_if_the_text_is_not_wanted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = parse(io.BytesIO(an_email().as_bytes()), name="a.eml", category=a_category(), tools=ParsingTools())
    del found
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_a_library_does_not_quote_the_document() -> None:
    assert refused(b"PK\x03\x04 secret words", "a.docx").endswith("it is broken, or no Office document; save it again")


def test_the_command_runs_with_the_library_that_runs_now() -> None:
    first = isolation._environment(Path("folder"))["PYTHONPATH"].split(os.pathsep)[0]
    assert (Path(first) / "opx" / "formats").is_dir()
