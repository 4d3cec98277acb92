"""numpy without docstrings computes as it does with them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.cli_support import ROOT, environment

PROGRAM = """
import sys
from opx.runtime.docstrings import without_docstrings
if sys.argv[1] == "without":
    without_docstrings()
import numpy as np
import numpy.linalg, numpy.random, numpy.typing
import onnxruntime, simsimd
values = np.arange(12, dtype=np.float32).reshape(3, 4)
print(bool(np.array.__doc__), values.sum(axis=1).tolist(), np.linalg.norm(values), simsimd.dot(values[0], values[1]))
"""


def printed(how: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, how],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.split(maxsplit=1)


@pytest.mark.parametrize(("how", "has_docstrings"), [("with", "True"), ("without", "False")])
def test_results_are_the_same(how: str, has_docstrings: str) -> None:
    assert printed(how) == [has_docstrings, printed("with")[1]]
