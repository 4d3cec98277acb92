"""Tests of the end of the process, while threads of native libraries still run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from opx.adapters.embedded.minilm.building import model_folder
from opx.settings import Settings
from tests.support.cli_support import ROOT, environment

LATE_MODEL = """
import atexit, sys, threading
import onnxruntime
from opx.edges.cli.main import main
from opx.system import bootstrap, connect

graph, begun = sys.argv.pop(1), threading.Event()

def load_again_and_again():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    while True:
        onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        begun.set()

for _ in range(3):
    threading.Thread(target=load_again_and_again, daemon=True).start()
begun.wait()
atexit.register(lambda: sys.stderr.write("registered with atexit"))
main(bootstrap, connect, None)
"""


def ended(program: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(line, env=environment(), capture_output=True, text=True, check=False, cwd=ROOT, timeout=120)


def test_a_model_that_is_still_loading_at_the_end_aborts_nothing(tmp_path: Path) -> None:
    graph = model_folder(Settings()) / "onnx" / "model.onnx"
    done = ended(LATE_MODEL, graph, "--home", tmp_path / "home", "categories")
    assert (done.returncode, done.stderr) == (0, "registered with atexit")
    assert "The default category is" in done.stdout


def test_the_exit_code_is_kept(tmp_path: Path) -> None:
    graph = model_folder(Settings()) / "onnx" / "model.onnx"
    done = ended(LATE_MODEL, graph, "--home", tmp_path / "home", "list")
    assert done.returncode == 2
    assert done.stderr.startswith("opx: no knowledge in ")


NO_THREADS = """
import atexit, sys
from opx.edges.cli.standard_streams import end_process

class Model:
    def __del__(self):
        sys.stderr.write("taken apart")

model = Model()
model.itself = model
atexit.register(lambda: sys.stderr.write("registered with atexit"))
sys.stdout.write("answer")
end_process(7)
"""


def test_without_threads_nothing_is_taken_apart() -> None:
    done = ended(NO_THREADS)
    assert (done.returncode, done.stdout, done.stderr) == (7, "answer", "registered with atexit")
