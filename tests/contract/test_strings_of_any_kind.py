"""No request is an unexpected error, whatever its strings: paths that are none, addresses that are none, half characters.

Of the example of each operation one string is replaced at a time. Operations with a route are called over a running server.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from msgspec import inspect

from opx.domain.record import Json
from opx.domain.requests import fields_of, read_request
from opx.edges.calling import LocalClient
from opx.edges.claims import caller_of_claims
from opx.errors import OpxError
from opx.operations.context import Caller
from opx.operations.registry import Operation
from opx_serve.application import application
from opx_serve.composition import serve
from opx_serve.listening import HttpServer, listening_socket
from opx_serve.routes import LocalBase
from opx_serve.tokens import Callers
from tests.contract.operation_edges import CALLER, World, copied
from tests.contract.operation_examples import EXAMPLES, REGISTRY, build

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

STRINGS = ("0" * 1000, "n" * 296 + ".txt", "a\x00b", "\ud800", "s3://" + "b" * 70 + "/k", "http://[")
"""Sent as each field."""

OTHERS = (
    "s3://",
    "http://0x" + "f" * 300 + "/",
    "https://a:99999/",
    "file:///dev/zero",
    "/dev/null/x",
    "../" * 40 + "no-such-folder/x",
    "..",
    "~nobody-of-this-name/x",
    "(" * 500,
    "9" * 5000,
    "9999-99-99T99:99:99Z",
    "0001-01-01",
    "é" * 20_000,
    "",
)
"""Sent as each field, for time's sake in every third operation, each in another."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("strings") / "home"
    ids = build(home)
    with (
        copied(home, tmp_path_factory.mktemp("send") / "home", ids) as found,
        contextlib.chdir(tmp_path_factory.mktemp("current")),  # of relative paths
    ):
        yield found


@pytest.fixture(scope="module")
def ask(world: World) -> Iterator[Callable[[Operation[Any, Any], Json], str]]:
    """The code of a refusal, or "" for an answer."""
    tokens: dict[str, Caller] = {}
    names: dict[str, str] = {}
    for one in REGISTRY:
        claims = world.for_operation(one).claims
        names[one.name] = f"token-{claims['opx_client_id']}-{claims['opx_project_id']}-{claims['scope']}"
        tokens[names[one.name]] = caller_of_claims(claims)
    served = serve(
        world.services, Callers(tokens, Caller(CALLER)), {"default": LocalBase(world.services)}, lambda: None
    )
    with HttpServer(application(served), listening_socket("127.0.0.1:0")) as server:

        def send(operation: Operation[Any, Any], fields: Json) -> str:
            if operation.route is None:
                return of_the_owner(world, operation, fields)
            method, address, body = parts(operation, fields)
            headers = {"authorization": f"Bearer {names[operation.name]}", "content-type": "application/json"}
            with closing(http.client.HTTPConnection(server.address, timeout=60)) as connection:
                connection.request(method, address, body, headers)
                reply = connection.getresponse()
                if reply.status in (414, 431):
                    return "too_large"
                return "" if reply.status < 300 else str(json.loads(reply.read())["error"]["code"])

        yield send


def of_the_owner(world: World, operation: Operation[Any, Any], fields: Json) -> str:
    """The same of an operation without a route, which commands call: an error of the library's is a message there."""
    try:
        request = read_request(operation.request, fields)
        LocalClient(world.for_operation(operation).context).call(operation.run, request)
    except OpxError as exc:
        return type(exc).__name__
    except Exception:  # noqa: BLE001 - the one that is looked for
        return "internal"
    return ""


def parts(operation: Operation[Any, Any], fields: Json) -> tuple[str, str, bytes | None]:
    """Method, address and body of a request. Nothing is checked before it is sent."""
    route, rest = operation.route, {"kbId": "default", **fields}
    assert route is not None
    path = re.sub(r"{(\w+)\+?}", lambda part: encoded(rest.pop(part[1])), route.path)
    rest.pop("kbId", None)
    if route.takes_body:
        return route.method, path, json.dumps(rest).encode()
    pairs = [
        f"{quote(name)}={encoded(one)}"
        for name, value in rest.items()
        for one in (value if isinstance(value, list | tuple) else [value])
    ]
    return route.method, f"{path}?{'&'.join(pairs)}", None


def encoded(value: Any) -> str:
    text = json.dumps(value) if isinstance(value, bool | dict) else str(value)
    return quote(text.encode("utf-8", "surrogatepass"), safe="")


# -- requests with one string replaced


def variants(kind: type[msgspec.Struct], example: Mapping[str, Any], text: str) -> Iterator[tuple[str, Json]]:
    """The field, and the example with the text as its value, of each field that has strings."""
    for one in fields_of(kind):
        for position, value in replaced(one.kind, example.get(one.json_name), text):
            yield one.json_name + position, {**example, one.json_name: value}


def replaced(kind: inspect.Type, value: Any, text: str) -> Iterator[tuple[str, Any]]:
    """Values of a type in which one string is the text, each with its position in the value."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        for each in kind.types:
            yield from replaced(each, value, text)
    elif isinstance(kind, inspect.StrType | inspect.EnumType):
        yield "", text
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        first = value[0] if isinstance(value, list | tuple) and value else None
        yield from (("[]" + position, [one]) for position, one in replaced(kind.item_type, first, text))
    elif isinstance(kind, inspect.StructType):
        given = value if isinstance(value, dict) else {}
        yield from (("." + position, one) for position, one in variants(kind.cls, given, text))
    elif isinstance(kind, inspect.DictType | inspect.AnyType):
        yield from of_json(value if value is not None else {"name": "x"}, text)


def of_json(value: Any, text: str) -> Iterator[tuple[str, Any]]:
    """The value with the text in position of each of its strings, and as a name."""
    if isinstance(value, str):
        yield "", text
    elif isinstance(value, dict):
        yield ".{}", {**value, text: "x"}
        for name, inner in value.items():
            yield from ((f".{name}{position}", {**value, name: one}) for position, one in of_json(inner, text))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            places = of_json(inner, text)
            yield from ((f"[]{position}", [*value[:number], one, *value[number + 1 :]]) for position, one in places)


@pytest.mark.parametrize(("number", "name"), [*enumerate(sorted(EXAMPLES))])
def test_no_string_is_an_unexpected_error(
    number: int, name: str, world: World, ask: Callable[[Operation[Any, Any], Json], str]
) -> None:
    operation = REGISTRY.get(name)
    assert operation is not None
    example = EXAMPLES[name](world)
    failed = [
        (position, text[:40])
        for text in (*STRINGS, *OTHERS[number % 3 :: 3])
        for position, fields in variants(operation.request, example, text)
        if ask(operation, fields) in ("internal", "unavailable")
    ]
    assert failed == []
