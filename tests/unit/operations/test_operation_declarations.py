"""Declarations of operations that can't be served fail at once, with the operation's name; the others have one order."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.record import Record
from opx.domain.requests import Request
from opx.operations.context import Context
from opx.operations.registry import (
    KNOWLEDGE,
    MAX_FUNCTION_PARAMETERS,
    MAX_TOOLS,
    OPERATIONS,
    REGISTRY,
    DeclarationError,
    Registry,
    Tool,
    operation,
)


class Moon(Record, frozen=True):
    name: str
    mean_size: int


class Wide(Request, frozen=True):
    a: str
    b: str
    c: str
    d: str
    e: str
    f: str


class Nothing(Request, frozen=True):
    pass


class NoJson:
    pass


class HoldsNoJson(Record, frozen=True):
    inner: dict[str, NoJson]


def silent(context: Context, request: Nothing) -> Moon:
    return Moon("", 0)


def of_a_record(context: Context, request: Moon) -> Moon:
    """Takes what is no request."""
    return request


def untyped(context, request) -> Moon:  # type: ignore[no-untyped-def]
    """Takes something."""
    return Moon("", 0)


def unanswered(context: Context, request: Nothing):  # type: ignore[no-untyped-def]
    """Gives something."""


def gives_an_object(context: Context, request: Nothing) -> NoJson:
    """Gives what is no JSON."""
    return NoJson()


def gives_objects(context: Context, request: Nothing) -> tuple[NoJson, ...]:
    """Gives what is no JSON."""
    return ()


def gives_a_holder(context: Context, request: Nothing) -> HoldsNoJson:
    """Gives what is no JSON."""
    return HoldsNoJson({})


def gives_either(context: Context, request: Nothing) -> int | NoJson:
    """Gives what is no JSON."""
    return 1


def gives_an_iterator(context: Context, request: Nothing) -> Iterator[int]:
    """Gives what is no JSON."""
    return iter(())


def wide(context: Context, request: Wide) -> Moon:
    """Takes a lot."""
    return Moon("", 0)


def narrow(context: Context, request: Nothing) -> Moon:
    """Takes nothing."""
    return Moon("", 0)


def other(context: Context, request: Nothing) -> Moon:
    """Takes nothing, too."""
    return Moon("", 0)


def for_every_agent() -> Tool:
    return Tool(KNOWLEDGE, "Use it.")


class TestWrongDeclarations:
    @pytest.mark.parametrize(
        ("run", "problem"),
        [
            (silent, "it has no docstring"),
            (of_a_record, "its request is no Request"),
            (untyped, "it declares no type of its request"),
            (unanswered, "it declares no type of its reply"),
            (gives_an_object, "its reply has .*NoJson.*, which is no JSON"),
            (gives_objects, "its reply has .*NoJson.*, which is no JSON"),
            (gives_a_holder, "its reply has .*NoJson.*, which is no JSON"),
            (gives_either, "its reply has .*NoJson.*, which is no JSON"),
            (gives_an_iterator, "its reply has .*Iterator.*, which is no JSON"),
        ],
    )
    def test_function_that_can_not_be_served_is_named(self, run: Callable[..., Any], problem: str) -> None:
        registry = Registry()
        with pytest.raises(DeclarationError, match=f"^operation {run.__name__}: {problem}"):
            operation(http="GET /x", registry=registry)(run)
        assert list(registry) == []

    def test_parameter_of_the_path_is_one_of_the_request(self) -> None:
        with pytest.raises(DeclarationError, match=r"^operation wide: its path has x, y, which its request lacks$"):
            operation(http="GET /{a}/{x}/{y+}", registry=Registry())(wide)

    def test_knowledge_base_in_the_path_is_no_field(self) -> None:
        registry = Registry()
        operation(http="GET /knowledge/{kbId}/narrow", registry=registry)(narrow)
        assert list(registry.routes) == ["GET /knowledge/{kbId}/narrow"]

    def test_tool_with_too_many_parameters_is_refused(self) -> None:
        message = f"^operation wide: a tool takes at most {MAX_FUNCTION_PARAMETERS} parameters, not 6$"
        with pytest.raises(DeclarationError, match=message):
            operation(tool=for_every_agent(), registry=Registry())(wide)

    def test_route_with_as_many_fields_is_not(self) -> None:
        registry = Registry()
        operation(http="GET /wide", registry=registry)(wide)
        assert "wide" in registry

    @pytest.mark.parametrize(
        ("first", "second", "problem"),
        [
            ((narrow, {}), (narrow, {}), "operation narrow: narrow has the same name"),
            (
                (narrow, {"http": "GET /x"}),
                (other, {"http": "GET /x"}),
                "operation other: narrow has the same route GET /x",
            ),
            (
                (narrow, {"command": "x"}),
                (other, {"command": "x"}),
                "operation other: narrow has the same command x",
            ),
        ],
    )
    def test_duplicate_name_route_or_command_is_refused(self, first: Any, second: Any, problem: str) -> None:
        registry = Registry()
        operation(**first[1], registry=registry)(first[0])
        with pytest.raises(DeclarationError, match=f"^{problem}$"):
            operation(**second[1], registry=registry)(second[0])
        assert [one.name for one in registry] == ["narrow"]

    @pytest.mark.parametrize(
        ("declared", "problem"),
        [
            ({"http": "GET /moons/big"}, "MODULES doesn't list the address /moons for search"),
            ({"tool": Tool(OPERATIONS, "Use it.")}, "MODULES doesn't list the tool group query-operations for search"),
        ],
    )
    def test_module_that_would_not_be_looked_in_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, declared: dict[str, Any], problem: str
    ) -> None:
        monkeypatch.setattr(narrow, "__module__", "opx.operations.search")
        with pytest.raises(DeclarationError, match=f"^operation narrow: {problem}$"):
            operation(**declared, registry=Registry())(narrow)

    def test_more_tools_for_every_agent_than_one_can_have_are_refused(self) -> None:
        registry = Registry()
        for number in range(MAX_TOOLS):
            operation(tool=for_every_agent(), registry=registry)(a_function(f"tool_{number}"))
        message = r"^operation narrow: an agent may have 11 tools, and tool_0, .*narrow are for every agent: "
        with pytest.raises(DeclarationError, match=message):
            operation(tool=for_every_agent(), registry=registry)(narrow)
        operation(tool=Tool(KNOWLEDGE, "Use it.", opt_in=True), registry=registry)(narrow)
        assert len(registry.tools(KNOWLEDGE)) == MAX_TOOLS + 1

    def test_it_fails_when_the_module_is_imported(self, tmp_path: Path) -> None:
        file = tmp_path / "wrong_operations.py"
        file.write_text(
            "from opx.operations.context import Context\n"
            "from opx.operations.documents import ListCategories, Categories\n"
            "from opx.operations.registry import operation\n\n"
            '@operation(http="GET /categories")\n'
            "def list_kinds(context: Context, request: ListCategories) -> Categories:\n"
            '    """List what list_categories lists."""\n'
        )
        spec = importlib.util.spec_from_file_location("wrong_operations", file)
        assert spec is not None
        assert spec.loader is not None
        with pytest.raises(
            DeclarationError, match="operation list_kinds: list_categories has the same route GET /categories"
        ):
            spec.loader.exec_module(importlib.util.module_from_spec(spec))
        assert "list_kinds" not in REGISTRY


def a_function(name: str) -> Callable[[Context, Nothing], Moon]:
    """An operation's function of this name."""

    def made(context: Context, request: Nothing) -> Moon:
        """Takes nothing."""
        return narrow(context, request)

    made.__name__ = name
    return made


def test_operations_are_in_the_same_order_whatever_was_declared_first() -> None:
    orders = []
    for runs in ((narrow, other, wide), (wide, other, narrow)):
        registry = Registry()
        for run in runs:
            operation(registry=registry)(run)
        orders.append([one.name for one in registry])
    assert orders == [["wide", "narrow", "other"]] * 2


def test_operation_that_was_removed_is_unknown() -> None:
    registry = Registry()
    operation(http="GET /x", command="x", registry=registry)(narrow)
    registry.remove("narrow")
    assert "narrow" not in registry
    assert registry.routes == {}
    operation(http="GET /x", command="x", registry=registry)(narrow)
