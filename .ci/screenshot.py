"""Draws the README's picture, one question and its answer in a terminal: `python .ci/screenshot.py HOME FILE.svg`.

The command runs on a terminal of its own, so that it prints what a person sees, with colours.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

COLUMNS = 100
COMMAND = ("search", "deleted the log files but df still shows the disk full", "--limit", "1", "--budget", "450")
SHOWN = "opx search deleted the log files but df still shows the disk full"

# The format's fonts come from a network; readers' own monospaced ones do.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


def printed(home: str) -> str:
    """Runs the command on a terminal and returns its output."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    opx = Path(sys.executable).parent / "opx"
    variables = {**os.environ, "TERM": "xterm-256color", "PAGER": "cat", "OPX_PAGER": "cat", "COLUMNS": str(COLUMNS)}
    variables.pop("NO_COLOR", None)
    command = [str(opx), "--home", home, *COMMAND]
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=variables)  # noqa: S603 - our own command
    os.close(its)
    found = b""
    while portion := _read(ours):
        found += portion
    if process.wait():
        raise SystemExit(f"{SHOWN} failed:\n{found.decode(errors='replace')}")
    return found.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError as exc:
        if exc.errno != errno.EIO:  # Linux's end of file of a terminal
            raise
        return b""


def draw(output: str, file: Path) -> None:
    nowhere = io.StringIO()
    console = Console(record=True, width=COLUMNS, force_terminal=True, color_system="truecolor", file=nowhere)
    console.print(Text.from_ansi(f"\x1b[1m$ {SHOWN}\x1b[0m\n\n" + _without_links(output).rstrip()))
    file.write_text(console.export_svg(title="opx", code_format=FORMAT, unique_id="opx"), encoding="utf-8")


def _without_links(text: str) -> str:
    return re.sub(r"\x1b\]8;.*?\x1b\\", "", text)


if __name__ == "__main__":
    draw(printed(sys.argv[1]), Path(sys.argv[2]))
