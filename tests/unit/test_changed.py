"""The choice of tests for a change, which `make test-changed` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changed import imports, modules, reached

KNOWN = dict.fromkeys(("opx.a", "opx.b", "opx.b.c", "tests.support.d"), Path())

IMPORTERS = {
    "opx.a": ["opx.b", "tests.unit.test_a"],
    "opx.b": ["tests.support.d", "opx.a"],
    "tests.support.d": ["tests.unit.test_a", "layers.opx-c.tests.test_c", "tests.e2e.test_all"],
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import opx.a", ["opx.a"]),
        ("from opx.b import (\n    c,\n    D,\n)", ["opx.b.c", "opx.b"]),
        ("def f():\n    from opx.b.c import D", ["opx.b.c"]),
        ("import os\nfrom . import a\nfrom json import loads", []),
    ],
)
def test_imports_are_found_anywhere_in_a_module(source: str, expected: list[str]) -> None:
    assert list(imports(source, KNOWN)) == expected


def test_nearest_tests_come_first_and_each_once() -> None:
    assert list(reached({"opx.a"}, IMPORTERS)) == [
        "tests.unit.test_a",
        "layers.opx-c.tests.test_c",
        "tests.e2e.test_all",
    ]


def test_modules_of_tests_beside_a_distribution_are_known() -> None:
    assert {"tests.unit.test_changed", "layers.opx-streams.tests.test_arrivals"} <= set(modules())


def test_a_changed_module_of_tests_comes_before_others() -> None:
    assert next(iter(reached({"tests.unit.test_z", "opx.a"}, IMPORTERS))) == "tests.unit.test_z"


def test_a_module_that_nothing_imports_reaches_no_test() -> None:
    assert list(reached({"opx.z"}, IMPORTERS)) == []
