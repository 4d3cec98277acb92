"""The routes about retention: holds, what is to be reviewed, and what was pruned."""

from __future__ import annotations

from opx.api.declarations import Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind

_ADMIN = (TokenScope.ADMIN,)
MAX_REASON = 1000

LIFECYCLE_READING = (
    Route(
        name="reviews",
        method="GET",
        path="/reviews",
        function=Function.RETRIEVE,
        about="Documents that should be looked at again by now, or soon, with who owns them.",
        query=(
            Field("days", Kind.WHOLE, "How many days ahead.", default=30, minimum=0, maximum=3650),
            text_field("owner", "What this owner is to see to.", default=""),
            Field("limit", Kind.WHOLE, "How many at most.", default=500, minimum=1, maximum=1000),
        ),
    ),
    Route(
        name="prunings",
        method="GET",
        path="/prunings",
        function=Function.RETRIEVE,
        about="What the last runs of pruning removed, over all clients: for callers without a client.",
        query=(Field("limit", Kind.WHOLE, "How many at most.", default=30, minimum=1, maximum=400),),
    ),
)

LIFECYCLE_WRITING = (
    Route(
        name="holds",
        method="GET",
        path="/holds",
        function=Function.MANAGE,
        about="The legal holds on what is the caller's: what is not to be removed, why, since when and by whom.",
        query=(Field("lifted", Kind.FLAG, "Those that were ended, in place of those in force.", default=False),),
        scopes=_ADMIN,
    ),
    Route(
        name="add_hold",
        method="POST",
        path="/holds",
        function=Function.MANAGE,
        about="Keep what is the caller's from being removed, whatever its retention is. Give one of document, of category "
        "and within, or everything.",
        body=(
            text_field("reason", "Why, such as the matter's name.", MAX_REASON, required=True, minimum=1),
            text_field("document", "A document's id.", minimum=1),
            text_field("category", "A category, or the beginning of one's path.", minimum=1),
            text_field("within", "The key of a scope: `client:acme`, `client:acme/project:shop`.", 300, minimum=1),
            Field("everything", Kind.FLAG, "All that is the caller's."),
        ),
        scopes=_ADMIN,
    ),
    Route(
        name="lift_hold",
        method="DELETE",
        path="/holds/{holdId}",
        function=Function.MANAGE,
        about="End a hold. It is kept as a record.",
        scopes=_ADMIN,
    ),
)
