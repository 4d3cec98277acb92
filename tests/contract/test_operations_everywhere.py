"""Every operation replies the same at every edge that serves it: the same JSON, and the same refusals.

`operation_examples.EXAMPLES` has a request of each operation, and an operation without one fails.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import inspect

from opx.domain.policy import TABLE, Reach, Role
from opx.domain.record import Json
from opx.domain.requests import FieldFacts, fields_of
from opx.domain.scopes import Identity
from opx.operations.context import Caller
from opx.operations.registry import Operation
from tests.contract.operation_edges import (
    CALLER,
    REFUSED_BY_COMMAND,
    EdgeReply,
    World,
    copied,
    edges_of,
    in_words_of_tools,
    local,
    over_http,
    remote,
    remote_command,
    served,
)
from tests.contract.operation_examples import (
    EXAMPLES,
    REGISTRY,
    UNKNOWN,
    Example,
    build,
    called,
    fixed,
    ids,
    outcome_of,
)

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

CALLER_WITHOUT_RIGHTS = Identity(CALLER.client_id, CALLER.project_id, "deployer")


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    home = tmp_path_factory.mktemp("everywhere") / "home"
    return home, build(home)


@pytest.fixture(scope="module")
def world(template: tuple[Path, dict[str, str]], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """To read of."""
    with copied(template[0], tmp_path_factory.mktemp("read") / "home", template[1]) as world:
        yield world


@pytest.fixture
def fresh(template: tuple[Path, dict[str, str]], tmp_path: Path) -> Callable[[], Any]:
    """Makes a system of its own to write to: each holds the same."""
    numbers = itertools.count()
    return lambda: copied(template[0], tmp_path / f"{next(numbers)}" / "home", template[1])


@pytest.fixture(autouse=True)
def _set_machine_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command passes the name of the machine's user to operations."""
    monkeypatch.setenv("LOGNAME", CALLER.principal)


REFUSED: Mapping[str, str] = {
    "list_affected": "not_found",
    "force_reindex": "invalid_argument",
    "roll_back_reindex": "invalid_argument",
    "get_removal_report": "invalid_argument",
    "send_test_delivery": "invalid_argument",
}
"""Codes of the refusals that examples get."""

READING = (
    *("list_", "get_", "find_", "read_", "diff_", "search", "query", "research", "explain_", "build_", "analyze_"),
    *("correlate_", "preview_", "compare_evaluations", "check_source"),
)

BY_NATURE: Mapping[str, tuple[str, ...]] = {
    "get_status": ("waiting", "backlog"),
    "make_webhook_secret": ("value",),
    "make_signing_key": ("publicKey",),
    **dict.fromkeys(
        ("capture_failure_solution", "capture_gate_rejection", "capture_gate_approval", "capture_warning"), ("entryId",)
    ),
}
"""Fields that differ for commands: who gives them owns the system, and is no agent, whose name an entry's id depends on."""

VOLATILE = frozenset(
    {"timingsMs", "receiptId", "receipt", "tookMs", "milliseconds", "seconds", "secondsAText", "p50Ms", "p95Ms"}
)
"""Durations, and generated names."""

MADE_UP = re.compile(
    r"(?<=Receipt ID: )[0-9a-f]{32}|https?://127[.]0[.]0[.]1:\d+(?=/bucket)|(?<=X-Amz-Signature=)[0-9a-f]+"
    r"|\b20\d{6}(?:T\d{6})?-[0-9a-f]{6}\b|\b\d{13}-[0-9a-f]{8}\b"
)
"""Receipts, addresses of uploads, and names of indexes, runs and merges, in texts."""


def names(select: Callable[[Operation[Any, Any]], bool] = lambda _: True) -> list[str]:
    return [one.name for one in REGISTRY if select(one)]


def test_each_operation_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(names())


def is_read(operation: Operation[Any, Any]) -> bool:
    return operation.name.startswith(READING)


@pytest.mark.parametrize("name", names(is_read))
def test_a_reading_operation_replies_the_same_on_every_edge(world: World, name: str) -> None:
    operation = REGISTRY.get(name)
    assert operation is not None
    expected = local(world, operation, EXAMPLES[name](world))
    assert expected.code == REFUSED.get(name, ""), expected
    for edge_name, edge in edges_of(operation).items():
        check_equal(edge_name, operation, (world, edge(world, operation, EXAMPLES[name](world))), (world, expected))


@pytest.mark.parametrize("name", names(lambda one: not is_read(one)))
def test_a_writing_operation_replies_the_same_on_every_edge(fresh: Callable[[], Any], name: str) -> None:
    operation = REGISTRY.get(name)
    assert operation is not None
    with fresh() as world:
        expected = local(world, operation, EXAMPLES[name](world))
    assert expected.code == REFUSED.get(name, ""), expected
    for edge_name, edge in edges_of(operation).items():
        with fresh() as other:
            check_equal(edge_name, operation, (other, edge(other, operation, EXAMPLES[name](other))), (world, expected))


def check_equal(
    edge: str, operation: Operation[Any, Any], found: tuple[World, EdgeReply], expected: tuple[World, EdgeReply]
) -> None:
    """Asserts that an edge's reply equals that of this process."""
    reply, wanted = (comparable(world, one) for world, one in (found, expected))
    if wanted.code:
        check_refused(edge, operation, reply, wanted)
        return
    assert not reply.code, (edge, reply)
    ignored = BY_NATURE.get(operation.name, ()) if edge == "command" else ()
    if reply.data is not None:
        assert without(reply.data, ignored) == without(wanted.data, ignored), edge
    if reply.text is not None:
        assert reply.text == wanted.text, edge


TOOL_EDGES = ("function", "api schema", "gateway", "mcp")


def check_refused(edge: str, operation: Operation[Any, Any], reply: EdgeReply, wanted: EdgeReply) -> None:
    """The same code and message; commands and MCP have no codes, and functions only a state for the agent."""
    message = in_words_of_tools(operation, wanted.message) if edge in TOOL_EDGES else wanted.message
    assert reply.message == message, edge
    codes = {
        wanted.code,
        "REPROMPT" if edge in ("function", "mcp") else "",
        REFUSED_BY_COMMAND if "command" in edge else "",
    }
    if edge == "function" and wanted.code == "forbidden":
        codes.add("FAILURE")
    assert reply.code in codes, (edge, reply)


def comparable(world: World, reply: EdgeReply) -> EdgeReply:
    """Without what differs from one call, or from one folder, to the next."""

    def one(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: None if name in VOLATILE else one(each) for name, each in value.items()}
        if isinstance(value, list):
            return [one(each) for each in value]
        if isinstance(value, str):
            return MADE_UP.sub("", value.replace(str(world.home.parent), "FOLDER"))
        return value

    return EdgeReply(one(reply.data), one(reply.text), reply.code, one(reply.message))


def without(data: Any, fields: tuple[str, ...]) -> Any:
    return {name: value for name, value in data.items() if name not in fields} if fields else data


# -- refusals


@pytest.mark.parametrize("name", names())
def test_malformed_request_is_refused_the_same_way_everywhere(world: World, name: str) -> None:
    operation = REGISTRY.get(name)
    assert operation is not None
    for fields, wrong in malformed(operation, EXAMPLES[name](world)):
        expected = local(world, operation, fields)
        assert expected.code == "invalid_argument", (wrong, expected)
        assert wrong in expected.message
        in_address = operation.route is not None and wrong in operation.route.path_names and wrong not in fields
        for edge_name, edge in edges_of(operation).items():
            if "command" in edge_name and fields.get(wrong) == 5:
                continue  # on a command line, that is a string
            if "command" in edge_name:
                assert edge(world, operation, fields).code == REFUSED_BY_COMMAND
            elif not (in_address and edge_name in ("http", "served")):  # without a part of its path it is no such route
                check_equal(edge_name, operation, (world, edge(world, operation, fields)), (world, expected))


def malformed(operation: Operation[Any, Any], good: Json) -> Iterator[tuple[Json, str]]:
    """Requests that are wrong in one field each, and the field."""
    if not getattr(operation.request, "unknown_fields", ""):
        yield {**good, "surprise": "1"}, "surprise"
    for one in fields_of(operation.request):
        if one.required:
            yield {name: value for name, value in good.items() if name != one.json_name}, one.json_name
        if isinstance(one.kind, inspect.StructType):
            yield {**good, one.json_name: {"surprise": 1}}, f"{one.json_name}.surprise"
        wrong = wrong_value(one)
        if wrong is not None:
            yield {**good, one.json_name: wrong}, one.json_name


def wrong_value(field: FieldFacts) -> Any:
    """A value that the field doesn't take; None if none is known."""
    if field.choices:
        return "sideways"
    if isinstance(field.kind, inspect.BoolType | inspect.FloatType):
        return "perhaps"
    if isinstance(field.kind, inspect.IntType):
        return "many" if field.kind.le is None else field.kind.le + 1
    if isinstance(field.kind, inspect.StrType):
        return too_long(field.kind) or ("" if field.required and field.kind.min_length else None)
    if isinstance(field.kind, inspect.VarTupleType):
        inner = field.kind.item_type
        while isinstance(inner, inspect.Metadata):
            inner = inner.type
        wrong = too_long(inner) if isinstance(inner, inspect.StrType) else None
        return wrong and [wrong]
    if isinstance(field.kind, inspect.UnionType):  # an action group converts 5 to a string
        return next(filter(None, (too_long(one) for one in field.kind.types if isinstance(one, inspect.StrType))), 5)
    return 5


def too_long(kind: inspect.StrType) -> str | None:
    return "x" * (kind.max_length + 1) if kind.max_length else None


DOCUMENT_FIELDS = {
    one.name: field.json_name
    for one in REGISTRY
    for field in fields_of(one.request)
    if field.json_name == "documentId" or (one.name, field.json_name) == ("add_hold", "document")
}
"""Operations that take a document's id, and the field."""

RETURNED = ("record_outcome", "report_outcome")
"""Operations on a document that an answer returned to the caller, who names its receipt."""

NOT_SEEN: Mapping[str, str] = {
    **dict.fromkeys(DOCUMENT_FIELDS, "not_found"),
    **dict.fromkeys(RETURNED, "invalid_argument"),
    "list_audit_records": "",
}
"""The code for a document that the caller doesn't see. It was never returned to him."""

STILL_THERE = (*RETURNED, "list_audit_records", "delete_document", "add_hold")
"""Operations that know of a document until pruning has deleted it: outcomes of it are recorded when they are known, the
audit log keeps its readers, and its owner may delete or hold it."""

EXPIRED: Mapping[str, str] = {name: "" if name in STILL_THERE else "not_found" for name in DOCUMENT_FIELDS}
"""The code for an expired document."""


@pytest.mark.parametrize("name", DOCUMENT_FIELDS)
def test_a_document_of_others_is_as_unknown_as_one_of_nobody(fresh: Callable[[], Any], name: str) -> None:
    of_others = reply_for_document(fresh, name, "rival", NOT_SEEN[name])
    of_nobody = reply_for_document(fresh, name, "", NOT_SEEN[name])
    assert of_others == of_nobody


@pytest.mark.parametrize("name", DOCUMENT_FIELDS)
def test_an_expired_document_is_shown_nowhere(fresh: Callable[[], Any], name: str) -> None:
    reply_for_document(fresh, name, "expired", EXPIRED[name])


def reply_for_document(fresh: Callable[[], Any], name: str, which: str, code: str) -> EdgeReply:
    """The reply of every edge for a document, its id left out."""
    operation = REGISTRY.get(name)
    assert operation is not None
    with fresh() as world:
        document_id = world.ids.get(which, UNKNOWN)
        fields = {**EXAMPLES[name](world), DOCUMENT_FIELDS[name]: document_id}
        expected = local(world, operation, fields)
        assert expected.code == code, expected
        for edge_name, edge in edges_of(operation).items():
            if expected.code or is_read(operation):
                check_equal(edge_name, operation, (world, edge(world, operation, fields)), (world, expected))
    return EdgeReply(expected.data, None, expected.code, expected.message.replace(document_id, "ID"))


NOT_THERE: Mapping[str, tuple[str, Example]] = {
    "verify_entry": ("not_found", fixed(entryId=UNKNOWN, worked=True)),
    "verify_solution": ("not_found", fixed(entryId=UNKNOWN, result="worked")),
    "list_entries": ("not_found", fixed(after=UNKNOWN)),
    "get_pattern": ("not_found", fixed(patternId=UNKNOWN)),
    "merge_patterns": ("not_found", lambda world: {"patternId": world.ids["pattern"], "otherId": UNKNOWN}),
    "split_pattern": ("not_found", fixed(patternId=UNKNOWN, ids=[UNKNOWN])),
    "undo_merge": ("not_found", fixed(mergeId=UNKNOWN)),
    "lift_hold": ("not_found", fixed(holdId=UNKNOWN)),
    "get_audit_record": ("not_found", fixed(receiptId=UNKNOWN)),
    "record_outcome": ("not_found", lambda world: outcome_of(world, receiptId=UNKNOWN)),
    "report_outcome": ("not_found", lambda world: outcome_of(world, receiptId=UNKNOWN)),
    "settle_gap": ("invalid_argument", fixed(gapId=UNKNOWN, ignore=True)),
    "assign_gap": ("invalid_argument", fixed(gapId=UNKNOWN, owner="platform")),
    "dismiss_contradiction": ("not_found", fixed(contradictionId=f"{UNKNOWN}-{UNKNOWN}-00000000")),
    "list_contradictions": ("unknown_category", fixed(category="gossip")),
    "get_node": ("not_found", fixed(ref="service:nobody")),
    "list_neighbours": ("not_found", fixed(ref="service:nobody")),
    "find_path": ("not_found", fixed(**{"from": "service:nobody", "to": "service:db"})),
    "list_changes": ("not_found", fixed(ref="service:nobody")),
    "find_related": ("not_found", fixed(reference="service:nobody")),
    "explain_relation": ("not_found", fixed(fromReference="service:nobody", toReference="service:db")),
    "merge_nodes": ("not_found", fixed(**{"from": "service:web", "into": "service:nobody"})),
    "remove_source": ("invalid_argument", fixed(sourceId="nowhere")),
    "pull_source": ("invalid_argument", fixed(sourceId="nowhere")),
    "check_source": ("invalid_argument", fixed(sourceId="nowhere")),
    "register_source": ("invalid_argument", fixed(sourceId="x", definition={"kind": "pigeon", "category": "runbooks"})),
    "end_stream": ("invalid_argument", fixed(name="nowhere")),
    "remove_secret": ("invalid_argument", fixed(name="nowhere")),
    "make_webhook_secret": ("invalid_argument", fixed(name="nowhere")),
    "list_documents": ("unknown_category", fixed(category="gossip")),
    "search": ("unknown_category", fixed(q="disk", category=["gossip"])),
    "query": ("unknown_category", fixed(query="disk", config={"categories": ["gossip"]})),
    "research": ("unknown_category", fixed(topic="disk", config={"categories": ["gossip"]})),
    "ingest": ("unknown_category", fixed(tier="internal", category="gossip", document="# A")),
    "get_object_states": ("invalid_argument", lambda world: {"objectKeys": [world.ids["rival_key"]]}),
    "delete_objects": (
        "invalid_argument",
        lambda world: {"objectKeys": [world.ids["own_key"], world.ids["rival_key"]]},
    ),
    "read_text": ("not_found", fixed(source="runbooks/vault.md")),
    "write_text": ("conflict", fixed(source="runbooks/vault.md", text="# Vault", expected="0" * 64)),
    "get_project": ("forbidden", fixed(clientId="rival", projectId="depot")),
    "assign_project": ("forbidden", fixed(clientId="rival", projectId="depot", groupId="g")),
    "list_projects": ("forbidden", fixed(clientId="rival")),
    "get_client": ("invalid_argument", fixed(clientId="a/b")),
    "process_checkpoint": ("invalid_argument", fixed(projectId="elsewhere")),
}
"""The code and a request for missing things, and for those of others."""


@pytest.mark.parametrize("name", NOT_THERE)
def test_unknown_name_or_id_is_refused_the_same_way_everywhere(world: World, name: str) -> None:
    code, example = NOT_THERE[name]
    check_refused_everywhere(world, name, example(world), code)


@pytest.mark.parametrize(
    ("name", "example"),
    [
        ("delete_document", ids(documentId="held")),
        ("delete_objects", lambda world: {"objectKeys": [world.ids["own_key"], world.ids["held_key"]]}),
    ],
)
def test_document_on_hold_is_deleted_at_no_edge(world: World, name: str, example: Example) -> None:
    check_refused_everywhere(world, name, example(world), "held")


def check_refused_everywhere(world: World, name: str, fields: Json, code: str) -> None:
    operation = REGISTRY.get(name)
    assert operation is not None
    expected = local(world, operation, fields)
    assert expected.code == code, expected
    for edge_name, edge in edges_of(operation).items():
        check_equal(edge_name, operation, (world, edge(world, operation, fields)), (world, expected))


OF_OTHERS: Mapping[str, str] = {
    "verify_entry": "rival_entry",
    "verify_solution": "rival_entry",
    "get_pattern": "rival_pattern",
    "merge_patterns": "rival_pattern",
    "split_pattern": "rival_pattern",
    "get_audit_record": "rival_receipt",
    "record_outcome": "rival_receipt",
    "report_outcome": "rival_receipt",
    "settle_gap": "rival_gap",
    "assign_gap": "rival_gap",
}
"""Operations that take the id of something, and what another client has of that."""


@pytest.mark.parametrize("name", OF_OTHERS)
def test_id_of_another_client_is_refused_like_an_unknown_one(world: World, name: str) -> None:
    code, example = NOT_THERE[name]
    theirs, fields = world.ids[OF_OTHERS[name]], example(world)
    operation = REGISTRY.get(name)
    assert operation is not None
    of_nobody = local(world, operation, fields)
    request = {field: theirs if value == UNKNOWN else value for field, value in fields.items()}
    of_others = local(world, operation, request)
    assert (of_others.code, of_others.message.replace(theirs, UNKNOWN)) == (code, of_nobody.message)
    check_refused_everywhere(world, name, request, code)


# -- who may


def is_restricted(operation: Operation[Any, Any]) -> bool:
    return any(TABLE[action][Role.READER] is Reach.NONE for action in operation.actions)


@pytest.mark.parametrize("name", names(lambda one: one.route is not None and is_restricted(one)))
def test_caller_without_rights_is_refused_the_same_way_everywhere(world: World, name: str) -> None:
    """A token without scopes, of no orchestrator."""
    nobody = replace(world, caller=Caller(CALLER_WITHOUT_RIGHTS, token_scopes=frozenset()))
    operation = REGISTRY.get(name)
    assert operation is not None
    fields = EXAMPLES[name](world)
    expected = local(nobody, operation, fields)
    assert expected.code == "forbidden", expected
    assert over_http(nobody, operation, fields) == expected
    assert served(nobody, operation, fields) == expected
    reply = remote(nobody, operation, fields)
    assert (reply.code, reply.message) == ("forbidden", expected.message)


@pytest.mark.parametrize("name", names(lambda one: one.route is None and one.tool is None))
def test_command_for_the_machine_of_the_system_is_refused_remotely(world: World, name: str) -> None:
    reply = called(remote_command, world, name, EXAMPLES[name](world))
    assert reply.code == REFUSED_BY_COMMAND
    assert reply.message.startswith(f"{name} works where the stores are")
