"""Tests of the command on a terminal: the pager, and a terminal of 20 columns."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shutil
import struct
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.cli_support import Opx, environment

DOCUMENTS = 30
SENTENCE = "Restart the service and read its log again. "


@pytest.fixture(scope="module")
def opx(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("terminal"))
    for number in range(DOCUMENTS - 1):
        opx.write(f"{number:02}.md", f"# Runbook {number}\n\n- Restart service {number}, then look at its log.\n")
    opx.write("long.md", "# Long\n\n" + f"{SENTENCE * 5}\n\n" * 12)
    opx("ingest", opx.folder / "docs")
    return opx


def on_a_terminal(
    opx: Opx, *arguments: str | Path, columns: int = 80, rows: int = 10, keys: str = "", environ: Mapping[str, str] = {}
) -> str:
    """The output of the command on a terminal of this size, with PAGER marking each line. With `keys`, they are typed, and
    the terminal shows stderr too. Variables that are empty are unset."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    given = environment(**{"PAGER": "sed s/^/paged:/", "NO_COLOR": "1", **environ})
    env = {name: value for name, value in given.items() if value and name not in ("COLUMNS", "LINES")}
    # A pager reads keys from the terminal of its session, or from stderr where the session has none.
    typed = {"stderr": terminal, "start_new_session": True} if keys else {}
    process = opx.start(*arguments, stdin=terminal, stdout=terminal, env=env, **typed)
    os.close(terminal)
    os.write(controller, keys.encode())
    output = b""
    with process:
        with contextlib.suppress(OSError):  # how the end of a terminal is reported
            while block := os.read(controller, 65536):
                output += block
        assert process.stderr is None or not process.stderr.read()
    os.close(controller)
    return output.decode().replace("\r\n", "\n")


def in_less(opx: Opx, *arguments: str, **environ: str) -> str:
    """The output of the command on a terminal of 80x24, where `less` shows the first screen and is quit then."""
    shown = {"PAGER": "", "LESS": "", "NO_COLOR": "", "TERM": "xterm-256color", **environ}
    return on_a_terminal(opx, *arguments, rows=24, keys="q", environ=shown)


needs_less = pytest.mark.skipif(not shutil.which("less"), reason="less is not installed")


@needs_less
@pytest.mark.parametrize("arguments", [("search", "restart service"), ("list",), ("show", "long.md")], ids=" ".join)
def test_less_shows_colours_and_no_escapes(opx: Opx, arguments: tuple[str, ...]) -> None:
    output = in_less(opx, *arguments)
    assert "\x1b[1m" in output
    assert "ESC" not in output


@needs_less
@pytest.mark.parametrize(
    "environ", [{"PAGER": "less"}, {"LESS": "-i"}, {"LESS": "FRX"}, {"PAGER": "less -i", "LESS": "-M"}], ids=str
)
def test_less_shows_colours_with_any_settings(opx: Opx, environ: dict[str, str]) -> None:
    output = in_less(opx, "search", "restart service", **environ)
    assert "\x1b[1m" in output
    assert "ESC" not in output


@needs_less
def test_less_shows_no_colours_where_they_are_off(opx: Opx) -> None:
    output = in_less(opx, "search", "restart service", NO_COLOR="1")
    assert "\x1b[1m" not in output
    assert "ESC" not in output


@needs_less
def test_an_answer_stays_on_the_screen_after_less_has_ended(opx: Opx) -> None:
    assert "\x1b[?1049h" not in in_less(opx, "search", "restart service")


@needs_less
def test_settings_of_less_are_kept(opx: Opx) -> None:
    assert "\x1b[?1049h" in in_less(opx, "search", "restart service", LESS="-i")


def test_links_are_left_out_while_paging_as_few_pagers_show_them(opx: Opx) -> None:
    assert "\x1b]8;;" in on_a_terminal(opx, "--no-pager", "search", "restart service", environ={"NO_COLOR": ""})
    assert "\x1b]8;;" not in on_a_terminal(opx, "search", "restart service", environ={"NO_COLOR": ""})


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
    output = on_a_terminal(opx, "--no-pager", "show", "long.md", columns=20, rows=400)
    body = output[output.rindex("\n\n") :]
    assert "Restart" in body
    assert max(map(len, re.split("\n", body))) <= 20
