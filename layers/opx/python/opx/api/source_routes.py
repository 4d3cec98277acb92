"""The routes about sources. What sources bring is for everyone that the installation is for, so that they are for
administrators alone."""

from __future__ import annotations

from opx.api.declarations import Function, Route, TokenScope, text_field
from opx.api.fields import Field, Kind

_ADMIN = (TokenScope.ADMIN,)
_DEFINITION = "As in knowledge.yaml: kind, category, schedule, time_zone, enabled, options, tags, max_missing_share."
MAX_URLS = 100

SOURCES = (
    Route(
        name="sources",
        method="GET",
        path="/sources",
        function=Function.MANAGE,
        about="All sources, and how their pulls stand.",
        scopes=_ADMIN,
    ),
    Route(
        name="register_source",
        method="PUT",
        path="/sources/{sourceId}",
        function=Function.MANAGE,
        about="Keep a source, and have it pulled at its times.",
        body=(Field("definition", Kind.OBJECT, _DEFINITION, required=True),),
        scopes=_ADMIN,
    ),
    Route(
        name="remove_source",
        method="DELETE",
        path="/sources/{sourceId}",
        function=Function.MANAGE,
        about="Forget a registered source; its documents stay.",
        scopes=_ADMIN,
    ),
    Route(
        name="pull_source",
        method="POST",
        path="/sources/{sourceId}/pull",
        function=Function.MANAGE,
        about="Have a source pulled now.",
        body=(
            Field("everything", Kind.FLAG, "Ask for all of it again, not for what changed."),
            Field("acceptMissing", Kind.FLAG, "Withdraw what a complete listing misses, however much it is."),
        ),
        scopes=_ADMIN,
        status=202,
    ),
    Route(
        name="source_health",
        method="GET",
        path="/sources/{sourceId}/health",
        function=Function.MANAGE,
        about="Whether a source can be pulled now: it is asked.",
        scopes=_ADMIN,
    ),
    Route(
        name="crawl",
        method="POST",
        path="/crawl",
        function=Function.MANAGE,
        about="Take a web site in: within its robots.txt, on the same site, politely.",
        body=(
            Field("urls", Kind.TEXT, "Where to begin.", repeated=True, minimum=1, maximum=2048, most=MAX_URLS),
            Field("sitemaps", Kind.TEXT, "Sitemaps to follow.", repeated=True, minimum=1, maximum=2048, most=MAX_URLS),
            text_field("category", "The category of its pages.", required=True),
            Field("depth", Kind.WHOLE, "How many links to follow from where it begins.", minimum=0, maximum=20),
            Field("maxPages", Kind.WHOLE, "How many pages to take at most.", minimum=1, maximum=100_000),
            Field("include", Kind.TEXT, "Paths to stay within.", repeated=True, minimum=1, maximum=500, most=MAX_URLS),
            Field("exclude", Kind.TEXT, "Paths to leave out.", repeated=True, minimum=1, maximum=500, most=MAX_URLS),
        ),
        scopes=_ADMIN,
        status=202,
    ),
)
