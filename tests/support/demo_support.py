"""The example corpus, ingested once for all tests on it: it takes half a minute of a processor."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[2]
OPX = Path(sys.executable).parent / "opx"
_HOME = ROOT / "build" / "docs-home"
_DAY = 24 * 3600


def demo_home_at(folder: Path) -> Path:
    """A copy, in a folder that isn't there yet, of a home after `opx demo`. The home is kept between the runs of a day: only
    changed files are ingested again."""
    _HOME.parent.mkdir(exist_ok=True)
    with FileLock(f"{_HOME}.lock"):
        if _HOME.is_dir() and time.time() - _HOME.stat().st_ctime > _DAY:
            shutil.rmtree(_HOME)
        subprocess.run([str(OPX), "--home", str(_HOME), "demo"], cwd=ROOT, check=True, capture_output=True, timeout=600)
        shutil.copytree(_HOME, folder)
    return folder
