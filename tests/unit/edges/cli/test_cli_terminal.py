"""Tests of the command on a terminal: the pager, and a terminal of 20 columns."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path

import pytest

from tests.support.cli_support import Opx, environment

DOCUMENTS = 12


@pytest.fixture
def opx(tmp_path: Path) -> Opx:
    opx = Opx(tmp_path)
    for number in range(DOCUMENTS):
        opx.write(f"{number:02}.md", f"# Runbook {number}\n\n- Restart service {number}, then look at its log.\n")
    opx("ingest", opx.folder / "docs")
    return opx


def on_a_terminal(opx: Opx, *arguments: str | Path, columns: int = 80, rows: int = 10, **environ: str) -> str:
    """The output of the command on a terminal of this size, with PAGER marking each line."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    env = environment(PAGER="sed s/^/paged:/", NO_COLOR="1", **environ)
    for name in ("COLUMNS", "LINES"):
        env.pop(name, None)
    process = opx.start(*arguments, stdin=terminal, stdout=terminal, env=env)
    os.close(terminal)
    output = b""
    with process:
        with contextlib.suppress(OSError):  # how the end of a terminal is reported
            while block := os.read(controller, 65536):
                output += block
        assert process.stderr is not None
        assert not process.stderr.read()
    os.close(controller)
    return output.decode().replace("\r\n", "\n")


def test_a_list_longer_than_the_screen_is_paged(opx: Opx) -> None:
    lines = on_a_terminal(opx, "list").splitlines()
    assert len(lines) == DOCUMENTS + 1
    assert all(line.startswith("paged:") for line in lines)


def test_a_list_that_fits_on_the_screen_is_not_paged(opx: Opx) -> None:
    assert "paged:" not in on_a_terminal(opx, "list", rows=DOCUMENTS + 5)


def test_a_long_answer_is_paged_unless_it_is_switched_off(opx: Opx) -> None:
    assert on_a_terminal(opx, "search", "restart service").startswith("paged:1. ")
    assert on_a_terminal(opx, "--no-pager", "search", "restart service").startswith("1. ")


def test_without_a_terminal_nothing_is_paged(opx: Opx) -> None:
    output, _ = opx.start("list", env=environment(PAGER="sed s/^/paged:/")).communicate(timeout=60)
    assert "paged:" not in output


@pytest.mark.parametrize("arguments", [(), ("--help",), ("search", "restart service"), ("show", "03.md"), ("status",)])
def test_a_terminal_of_20_columns_is_served(opx: Opx, arguments: tuple[str, ...]) -> None:
    output = on_a_terminal(opx, "--no-pager", *arguments, columns=20, rows=400)
    assert len(output.split()) > 10
    assert "Traceback" not in output


def test_prose_fits_into_20_columns(opx: Opx) -> None:
    opx("ingest", opx.write("long.md", "# Long\n\n" + "Restart the service and read its log again. " * 5 + "\n"))
    output = on_a_terminal(opx, "--no-pager", "show", "long.md", columns=20, rows=400)
    body = output[output.rindex("\n\n") :]
    assert "Restart" in body
    assert max(map(len, re.split("\n", body))) <= 20
