"""Builds commands from operations: options follow from the request's fields, JSON from the reply; a command only adds how
the reply is printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar

import click
import msgspec
from msgspec import Struct, field, inspect, structs

from opx.domain.requests import FieldFacts, Request, _choices, fields_of, read_request
from opx.edges.calling import OperationClient, all_pages, plain
from opx.edges.cli.output import print_json, print_json_lines, print_lines
from opx.edges.cli.session import SESSION, Session
from opx.operations import load
from opx.operations.context import Progress
from opx.operations.registry import REGISTRY, Operation, Run

Q = TypeVar("Q", bound=Request)
R = TypeVar("R")


_SHOWN = re.compile(r"(?P<names>-\S+)? ?(?P<metavar>[^a-z\s]+(?=  |$))? *(?P<about>.*)")
AS_JSON = "Print it as JSON."
AS_JSON_LINES = "Print JSON Lines: one on each line."


class CommandShape(Struct, frozen=True):
    """Mapping of a command line to a request of the operation `run`. `arguments` are positional, in this order; `without`
    keep their defaults; `defaults` differ from those of other callers. `fields` overrides how fields are shown, each in the
    form of help: `"--scope KEY All of a scope."`, of which each part is optional; `-y/--yes` and `-t|--tag` are several
    names. `json` is the help of `--json`, "" for none. `items` names the list that `--json` and `--jsonl` print instead of
    the whole reply, and that is read from all pages. `anywhere`: the command also works before anything was ingested;
    `elsewhere`: the error for a deployed system, if the command works on this machine only; `ids` find the whole id for the
    beginning of one, by field; `progress` shows the steps meanwhile."""

    name: str
    run: Run[Any, Any]
    arguments: Sequence[str] = ()
    fields: Mapping[str, str] = field(default_factory=dict)
    without: Sequence[str] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    json: str = AS_JSON
    items: str = ""
    anywhere: bool = False
    elsewhere: str = ""
    ids: Mapping[str, Callable[[Session, str], str]] = field(default_factory=dict)
    progress: Callable[[], AbstractContextManager[Progress]] | None = None

    def shown(self, fact: FieldFacts) -> tuple[str, str | None, str]:
        """A field's names as an option ("" for the usual one), its metavar and its help."""
        found = _SHOWN.fullmatch(self.fields.get(fact.name, ""))
        assert found
        return found["names"] or "", found["metavar"], found["about"] or fact.about


Present = Callable[..., Iterable[str] | None]
"""Prints a reply as text, or returns the lines to print: gets the reply, and by name those of `session`, `request`, `as_json`
and the command's own options that it has parameters for."""

Maker = Callable[[Present], click.Command]


def operation_command(name: str, run: Run[Any, Any], **fields: Any) -> Maker:
    """Turns the decorated function, which prints the reply, into a command; one with a parameter `as_json` is also called
    after JSON was printed, to warn on stderr and to set the exit code. Its docstring is the help, and `fields` are those of
    `CommandShape`. Its own options are added with `click.option` above it, as for any command; one named like a field
    replaces the field's option."""
    shape = CommandShape(name, run, **fields)

    def make(present: Present) -> click.Command:
        def act(given: dict[str, Any]) -> None:
            reply = _reply(given["session"], given["request"], shape)
            if given["as_jsonl"]:
                print_json_lines(shown_json(reply, shape.items))
                given = {**given, "as_json": True}
            elif given["as_json"]:
                print_json(shown_json(reply, shape.items))
            if not given["as_json"] or "as_json" in _parameters_of(present):
                _call_by_name(present, given, reply)

        return _command(shape, present, act)

    return make


def request_command(name: str, run: Run[Any, Any], **fields: Any) -> Maker:
    """Turns a function that calls operations itself, with a request built from the options, into a command. It gets the same
    by name as `Present`, without a reply."""
    shape = CommandShape(name, run, **fields)
    return lambda act: _command(shape, act, lambda given: _call_by_name(act, given))


class OperationGroup(click.Group):
    """A group whose commands are built from operations."""

    def operation(self, name: str, run: Run[Any, Any], **fields: Any) -> Maker:
        """As `operation_command`."""
        return self._adding(operation_command(name, run, **fields))

    def request(self, name: str, run: Run[Any, Any], **fields: Any) -> Maker:
        """As `request_command`."""
        return self._adding(request_command(name, run, **fields))

    def _adding(self, make: Maker) -> Maker:
        def made(function: Present) -> click.Command:
            self.add_command(command := make(function))
            return command

        return made


def _command(shape: CommandShape, function: Present, act: Callable[[dict[str, Any]], None]) -> click.Command:
    kind = _operation(shape.run).request
    facts = {one.name: one for one in fields_of(kind)}
    own = {str(one.name): one for one in reversed(getattr(function, "__click_params__", []))}
    names = [*shape.arguments, *(at for at in facts if at not in (*shape.arguments, *shape.without))]
    fields = [own.get(at) or (_argument if at in shape.arguments else _option)(facts[at], shape) for at in names]
    added = [param for at, param in own.items() if at not in names]
    if shape.json:
        added.append(click.Option(["--json", "as_json"], is_flag=True, help=shape.json))
    if shape.json and shape.items:
        added.append(click.Option(["--jsonl", "as_jsonl"], is_flag=True, help=AS_JSON_LINES))

    def callback(**values: Any) -> None:
        session: Session = click.get_current_context().meta[SESSION]
        given = {"as_json": False, "as_jsonl": False, **{str(param.name): values.pop(param.name) for param in added}}
        whole_ids = {at: find(session, values[at]) for at, find in shape.ids.items() if values.get(at)}
        request = request_of(kind, {**values, **whole_ids})
        if shape.elsewhere:
            session.require_local(shape.elsewhere)
        if not shape.anywhere:
            session.require_knowledge()
        act({**given, "session": session, "request": request})

    return click.Command(shape.name, params=[*fields, *added], callback=callback, help=function.__doc__)


def _parameters_of(function: Present) -> tuple[str, ...]:
    code = function.__code__
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _call_by_name(function: Present, given: Mapping[str, Any], *reply: Any) -> None:
    lines = function(*reply, **{name: value for name, value in given.items() if name in _parameters_of(function)})
    print_lines(lines or ())


def shown_json(reply: Any, items: str = "") -> Any:
    """The JSON of a reply, or of the list in it."""
    names = {one.name: one.encode_name for one in structs.fields(reply)} if items else {}
    return plain(reply)[names[items]] if items else plain(reply)


def request_of(kind: type[Q], values: Mapping[str, Any]) -> Q:
    """The request for values of the command line; others have their defaults. Raises `RequestError`."""
    given = {
        name: list(value) if isinstance(value, tuple) else str(value) if isinstance(value, PurePath) else value
        for name, value in values.items()
        if value is not None and value != ()
    }
    return read_request(kind, given, attributes=True)


def _reply(session: Session, request: Any, shape: CommandShape) -> Any:
    with shape.progress() if shape.progress else nullcontext() as progress:
        client = session.watched_client(progress) if progress else session.client
        if not (shape.items and "after" in shape.without):
            return client.call(shape.run, request)
        return whole(client, shape.run, request, shape.items)


def whole(client: OperationClient, run: Run[Q, R], request: Q, items: str) -> R:
    """The reply with `items` of all its pages."""
    *_, last = [found := list(all_pages(client, run, request)), found[-1]]
    every = tuple(one for page in found for one in getattr(page, items))
    reply: R = structs.replace(last, **{items: every})  # type: ignore[type-var]
    return reply


def _operation(run: Run[Any, Any]) -> Operation[Any, Any]:
    return REGISTRY.of(run)


# -- parameters


def _argument(fact: FieldFacts, shape: CommandShape) -> click.Argument:
    metavar = shape.shown(fact)[1] or fact.name.upper()
    nargs = -1 if fact.is_list else 1
    default = None if fact.required else _default(fact, shape)
    return click.Argument(
        [fact.name], type=_type(fact), required=fact.required, nargs=nargs, metavar=metavar, default=default
    )


def _option(fact: FieldFacts, shape: CommandShape) -> click.Option:
    names, metavar, about = shape.shown(fact)
    names = names or "--" + fact.name.replace("_", "-")
    default = _default(fact, shape)
    flags = [*names.split("|"), fact.name]
    if isinstance(fact.kind, inspect.BoolType):
        two = "/" in names
        return click.Option(flags, is_flag=True, default=default, help=about, show_default=two)
    return click.Option(
        flags,
        type=_type(fact),
        multiple=fact.is_list,
        required=fact.required and fact.name not in shape.defaults,
        default=None if fact.is_list else default,
        show_default=default not in (None, "", 0) and not fact.is_list,
        metavar=metavar,
        help=about,
    )


def _default(fact: FieldFacts, shape: CommandShape) -> Any:
    default = shape.defaults.get(fact.name, fact.default)
    if isinstance(default, Enum):
        default = default.value
    return default if isinstance(default, str | int | float | bool | None) else None


def _type(fact: FieldFacts) -> Any:
    kind: Any = fact.kind
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        kind = kind.item_type
    choices = fact.choices or _choices_of_items(fact)
    if choices:
        return click.Choice(choices)
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if isinstance(kind, inspect.IntType):
        return click.IntRange(kind.ge, kind.le) if (kind.ge, kind.le) != (None, None) else click.INT
    if isinstance(kind, inspect.FloatType):
        return click.FloatRange(kind.ge, kind.le) if (kind.ge, kind.le) != (None, None) else click.FLOAT
    if isinstance(kind, inspect.UnionType):
        return JsonType(or_text=True)
    if isinstance(kind, inspect.DictType | inspect.StructType):
        return JsonType()
    return click.STRING


def _choices_of_items(fact: FieldFacts) -> tuple[str, ...]:
    kind: Any = fact.kind
    return _choices(kind.item_type) if fact.is_list else ()


class JsonType(click.ParamType[Any]):
    """A value written as JSON. With `or_text`, anything but an object or a list is a plain string."""

    name = "json"

    def __init__(self, *, or_text: bool = False) -> None:
        self._or_text = or_text

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            found = msgspec.json.decode(value)
            return value if self._or_text and not isinstance(found, dict | list) else found
        except msgspec.DecodeError:
            if self._or_text:
                return value
            self.fail(f"{value[:60]!r} is not JSON", param, ctx)


# -- generated commands


def plain_command(operation: Operation[Any, Any]) -> click.Command:
    """A command with every field of an operation's request as an option, which prints the reply as JSON. A flag that may be
    left out, and isn't false then, has a negative too."""

    def callback(**values: Any) -> None:
        session: Session = click.get_current_context().meta[SESSION]
        print_json(plain(session.call(operation.run, request_of(operation.request, values))))

    facts = fields_of(operation.request)
    options = (one.name.replace("_", "-") for one in facts)
    negatives = {
        one.name: f"--{option}/--no-{option}"
        for one, option in zip(facts, options, strict=True)
        if isinstance(one.kind, inspect.BoolType) and one.default is None
    }
    shape = CommandShape(operation.name, operation.run, fields=negatives)
    params: list[click.Parameter] = [_option(one, shape) for one in facts]
    return click.Command(operation.command or operation.name, params=params, callback=callback, help=operation.about)


class _Operations(click.Group):
    """One command per operation."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(one.name for one in load())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        found = load().get(cmd_name.replace("-", "_"))
        return plain_command(found) if found else None


@click.group("call", cls=_Operations)
def call_command() -> None:
    """Call an operation by its name, with its fields as options, and print its reply as JSON.

    \b
    opx call list_documents --category runbooks
    opx call --help                    all operations
    """
