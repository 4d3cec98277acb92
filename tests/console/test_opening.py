"""`opx console` opens a browser: who sees the key that makes it the owner's."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import time
from pathlib import Path

import pytest

from tests.console.served import OPX

pytestmark = [pytest.mark.browser, pytest.mark.core]

OPENER = """#!/bin/sh
printf '%s\\n' "$@" > {seen}.part && mv {seen}.part {seen}
"""


def test_the_key_is_no_argument_of_the_browser(tmp_path: Path) -> None:
    """All users of a machine see arguments. The file that is opened is its owner's alone, and goes with the command."""
    seen, home = tmp_path / "seen", tmp_path / "home"
    opener = tmp_path / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(OPENER.format(seen=seen))
    opener.chmod(0o755)
    environment = {**os.environ, "PATH": f"{opener.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [str(OPX), "--home", str(home), "console", "--answers-only"]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            while not seen.exists():
                assert process.poll() is None
                time.sleep(0.05)
            (argument,) = seen.read_text().splitlines()
            page = Path(argument.removeprefix("file://"))
            assert stat.S_IMODE(page.stat().st_mode) == 0o600
            assert re.search(
                r'http-equiv="refresh" content="0;url=http://127\.0\.0\.1:\d+/console/\?key=[\w-]{32}"',
                page.read_text(),
            )
        finally:
            process.terminate()
            process.wait(30)
    assert not page.exists()
