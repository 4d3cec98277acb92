"""Types that several threads convert to for the first time at once: msgspec 0.22 by itself ends the process."""

from __future__ import annotations

import subprocess
import sys

import pytest

RACE = '''
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

from opx.domain.record import from_json
from opx.domain.requests import fields_of
from opx.edges.schemas import components

FIRST = {"convert": lambda kind: None, "inspect": fields_of, "describe": lambda kind: components([kind])}[sys.argv[1]]
THREADS = 8
HEAD = """
from __future__ import annotations
from typing import Annotated
from msgspec import Meta, Struct
"""
KIND = """
class Kind{at}(Struct):
    inner: {inner}
    texts: Annotated[tuple[Annotated[str, Meta(max_length=5)], ...], Meta(max_length=3)] = ()
    counts: dict[str, int] | None = None
"""
VALUE = {"inner": {"k": [{"inner": {}, "texts": ["y"]}]}, "texts": ["x"], "counts": {"k": 1}}


def new_type(number: int) -> Any:
    module = ModuleType(f"kinds{number}")
    sys.modules[module.__name__] = module
    inner = ["dict[str, int]", "dict[str, tuple[Kind0, ...]]"]
    exec(HEAD + "".join(KIND.format(at=at, inner=one) for at, one in enumerate(inner)), module.__dict__)
    return module.Kind1


def convert(kind: Any, barrier: threading.Barrier) -> Any:
    barrier.wait()
    FIRST(kind)
    return from_json(kind, VALUE)


sys.setswitchinterval(1e-6)
with ThreadPoolExecutor(THREADS) as pool:
    for number in range(300):
        kind, barrier = new_type(number), threading.Barrier(THREADS)
        found = [pool.submit(convert, kind, barrier) for _ in range(THREADS)]
        assert {one.result().texts for one in found} == {("x",)}
print("converted")
'''


@pytest.mark.parametrize("first", ["convert", "inspect", "describe"])
def test_threads_may_use_a_new_type_at_once(first: str) -> None:
    done = subprocess.run([sys.executable, "-c", RACE, first], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "converted"), done.stderr[-2000:]
