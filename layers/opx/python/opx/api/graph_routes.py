"""The routes about things and how they are related."""

from __future__ import annotations

from opx.api.declarations import Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind
from opx.domain.graph import MAX_HOPS, Direction
from opx.graph.asked import MAX_FOUND, MAX_SHOWN

MAX_REFERENCE = 4000
"""Characters, as of any text that is taken for a reference."""

MAX_TYPES = 20
LOOKED_AT, MAX_LOOKED_AT = 200, 1000
"""Each costs a few requests, and a reply has half a minute."""

MAX_ALIASES = 1000
SIDES = ("upstream", "downstream")
_MAX_NAME = 60
_REFERENCE = "A thing: namespace:value, such as service:checkout, or a name that only one thing has."
_SINCE = "Only what was so then or later: how long ago (12h, 1d, 2w), a day or a time."
_UNTIL = "Only what was so then or before."

SINCE = text_field("since", _SINCE, 40)
UNTIL = text_field("until", _UNTIL, 40)
_BOUNDS = (
    text_field("type", "A type of relation, such as depends_on; several for any of them.", _MAX_NAME,
               repeated=True, minimum=1, most=MAX_TYPES),
    text_field("direction", "Along relations, against them, or both.", default=Direction.BOTH.value,
               choices=tuple(Direction)),
    SINCE,
    UNTIL,
)  # fmt: skip


def reference_field(name: str, about: str = _REFERENCE) -> Field:
    return text_field(name, about, MAX_REFERENCE, required=True, minimum=1)


def _at_most(default: int, about: str, most: int = MAX_SHOWN) -> Field:
    return Field("limit", Kind.WHOLE, about, default=default, minimum=1, maximum=most)


GRAPH_READING = (
    Route(
        name="graph_node",
        method="GET",
        path="/graph/nodes",
        function=Function.RETRIEVE,
        about="A thing, its relations, the newest first, and the passages that say so.",
        query=(reference_field("ref"), _at_most(100, "How many relations at most.")),
    ),
    Route(
        name="graph_neighbours",
        method="GET",
        path="/graph/neighbours",
        function=Function.RETRIEVE,
        about="What is around a thing, the nearest first, by which relations, and the passages that say so.",
        query=(
            reference_field("ref"),
            Field("hops", Kind.WHOLE, "How many relations away.", default=1, minimum=1, maximum=MAX_HOPS),
            *_BOUNDS,
            _at_most(100, "How many things at most."),
        ),
    ),
    Route(
        name="graph_path",
        method="GET",
        path="/graph/path",
        function=Function.RETRIEVE,
        about="The shortest way from one thing to another, each step with the passages that prove it.",
        query=(reference_field("from"), reference_field("to"), *_BOUNDS),
    ),
    Route(
        name="graph_find",
        method="GET",
        path="/graph/find",
        function=Function.RETRIEVE,
        about="Things whose name begins so, in any case of letters.",
        query=(
            text_field("q", "The beginning of a name, or of a reference.", MAX_REFERENCE, required=True, minimum=1),
            text_field("type", "Only things of this type, such as service.", _MAX_NAME, minimum=1),
            _at_most(20, "How many at most.", MAX_FOUND),
        ),
    ),
    Route(
        name="graph_changes",
        method="GET",
        path="/graph/changes",
        function=Function.RETRIEVE,
        about="What changed of a thing and of what it depends on (upstream), or of what depends on it (downstream).",
        query=(
            reference_field("ref"),
            text_field("side", "Where to look besides.", default=SIDES[0], choices=SIDES),
            SINCE,
            UNTIL,
        ),
    ),
    Route(
        name="graph_affected",
        method="GET",
        path="/graph/affected",
        function=Function.RETRIEVE,
        about="Services that run a version which a vulnerability affects, or the runbooks that cover them.",
        query=(
            reference_field("cve", "The vulnerability, such as CVE-2024-1234."),
            Field("runbooks", Kind.FLAG, "Ask for the runbooks.", default=False),
        ),
    ),
    Route(
        name="graph_coverage",
        method="GET",
        path="/graph/coverage",
        function=Function.RETRIEVE,
        about="Alerts without a runbook, runbooks whose alerts never fired, services without a runbook.",
        query=(
            SINCE,
            Field(
                "limit",
                Kind.WHOLE,
                "How many things of each type are looked at.",
                default=LOOKED_AT,
                minimum=1,
                maximum=MAX_LOOKED_AT,
            ),
        ),
    ),
    Route(
        name="aliases",
        method="GET",
        path="/graph/aliases",
        function=Function.RETRIEVE,
        about="Other names of things, as far as the caller's questions know them.",
        query=(Field("limit", Kind.WHOLE, "How many at most.", default=MAX_ALIASES, minimum=1, maximum=MAX_ALIASES),),
    ),
    Route(
        name="merges",
        method="GET",
        path="/graph/merges",
        function=Function.RETRIEVE,
        about="What was merged in the caller's scope, the newest first.",
    ),
)

_WRITERS = (TokenScope.WRITE, TokenScope.ADMIN)

GRAPH_WRITING = (
    Route(
        name="add_alias",
        method="POST",
        path="/graph/aliases",
        function=Function.MANAGE,
        about="Know a thing by another name, too, in the caller's scope.",
        body=(reference_field("alias", "The other name."), reference_field("canonical", "The thing's own.")),
        scopes=_WRITERS,
    ),
    Route(
        name="remove_alias",
        method="DELETE",
        path="/graph/aliases",
        function=Function.MANAGE,
        about="Forget another name that the caller's scope has.",
        query=(reference_field("alias", "The other name."),),
        scopes=_WRITERS,
    ),
    Route(
        name="merge_things",
        method="POST",
        path="/graph/merges",
        function=Function.MANAGE,
        about="Make two references of the caller's scope one; the evidence of both is kept.",
        body=(reference_field("from", "What becomes another name."), reference_field("into", "What it is a name of.")),
        scopes=_WRITERS,
    ),
    Route(
        name="undo_merge",
        method="DELETE",
        path="/graph/merges/{mergeId}",
        function=Function.MANAGE,
        about="Make two references of what was merged.",
        scopes=_WRITERS,
    ),
)
