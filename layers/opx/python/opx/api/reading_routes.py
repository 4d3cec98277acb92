"""The routes that read."""

from __future__ import annotations

from collections.abc import Sequence

from opx.api.declarations import AFTER, MAX_KEY_CHARACTERS, Function, Route, text_field
from opx.api.fields import Field, Kind
from opx.domain.knowledge import Tier
from opx.domain.queries import MAX_QUERY_CHARACTERS, MAX_RESULTS, Expand, Fusion, SearchMode
from opx.knowledge_base import MAX_PAGE

DEFAULT_RESULTS = 5
MAX_SEARCH_RESULTS = 20
MAX_RECORDS = 1000
"""Of the audit log in one reply."""

_CATEGORY = "A category, or the beginning of one's path."
_TAG = "A tag: a document has at least one of those given."
_SERVICE = "A service: a document is about at least one of those given."
_FROM = "Only what was last updated on this day, such as 2026-03-31, or later."
_BEFORE = "Only what was last updated before this day."
_EXPAND = "What of its document comes with each passage: nothing, the rest of its section, or all of it."
_GRAPH = "Go on along the graph from what was found: the answer has an `evidencePack`."
_AS_OF = "What would have been answered at this time, such as 2026-03-31T14:05Z."
_PLAIN = "Search for all of the question as words; without it, it may hold operators, such as tag:kafka."


def _several(name: str, about: str, choices: Sequence[str] = ()) -> Field:
    return text_field(name, about, repeated=True, minimum=1, most=MAX_PAGE, choices=tuple(choices))


def _after_count(what: str) -> Field:
    about = f"`next` of the page before: how many {what} to leave out."
    return Field("after", Kind.WHOLE, about, default=0, minimum=0, maximum=10**9)


CONFIG_FIELDS = (
    _several("tiers", "Tiers to search.", [*Tier]),
    _several("categories", _CATEGORY),
    Field("minConfidence", Kind.NUMBER, "Leave out what is less likely to answer.", minimum=0, maximum=1),
    Field("maxResults", Kind.WHOLE, "How many results at most.", minimum=1, maximum=MAX_RESULTS),
    Field("includeInternet", Kind.FLAG, "Also search what was fetched from the internet."),
    Field("requireProvenance", Kind.FLAG, "Leave out what names no source."),
    _several("tags", _TAG),
    text_field("documentId", "Search within this document."),
    text_field("language", "Only documents in this language, such as en."),
    text_field("mode", "How much work the question is worth.", choices=tuple(SearchMode)),
    text_field("fusion", "How words and meaning are put together.", choices=tuple(Fusion)),
    Field("maxChunksPerDocument", Kind.WHOLE, "Results of one document at most.", minimum=1, maximum=MAX_RESULTS),
    _several("services", _SERVICE),
    text_field("updatedFrom", _FROM),
    text_field("updatedBefore", _BEFORE),
    text_field("expand", _EXPAND, choices=tuple(Expand)),
    Field("plain", Kind.FLAG, _PLAIN),
    Field("expandGraph", Kind.FLAG, _GRAPH),
    text_field("asOf", _AS_OF),
)
"""`QueryConfig` in JSON's names; its defaults are those of the library."""

_RECEIPT = "Also give a receipt: with it the question can be asked again, and the answers compared."
_QUESTION = f"The question; of a longer one than {MAX_QUERY_CHARACTERS:,} characters the beginning is read."
_MAX_QUESTION = 100_000

READING = (
    Route(
        name="search",
        method="GET",
        path="/knowledge/{kbId}/search",
        function=Function.RETRIEVE,
        about="Ask a question.",
        query=(
            text_field("q", _QUESTION, _MAX_QUESTION, required=True, minimum=1),
            text_field("thoroughness", "How much work it is worth.", choices=tuple(SearchMode), default="balanced"),
            Field(
                "limit",
                Kind.WHOLE,
                "How many results at most.",
                default=DEFAULT_RESULTS,
                minimum=1,
                maximum=MAX_SEARCH_RESULTS,
            ),
            _several("category", _CATEGORY),
            _several("tag", _TAG),
            _several("tier", "A tier of trust.", [*Tier]),
            _several("service", _SERVICE),
            text_field("updatedFrom", _FROM),
            text_field("updatedBefore", _BEFORE),
            text_field("expand", _EXPAND, choices=tuple(Expand), default="none"),
            Field("plain", Kind.FLAG, _PLAIN, default=False),
            Field("graph", Kind.FLAG, _GRAPH, default=False),
            text_field("asOf", _AS_OF),
            Field("receipt", Kind.FLAG, _RECEIPT, default=False),
        ),
    ),
    Route(
        name="query",
        method="POST",
        path="/knowledge/{kbId}/query",
        function=Function.RETRIEVE,
        about="Ask a question, with everything that can be said about how to answer it.",
        body=(
            text_field("query", _QUESTION, _MAX_QUESTION, required=True, minimum=1),
            Field("config", Kind.OBJECT, "How to answer; what is left out has its default.", fields=CONFIG_FIELDS),
            Field("receipt", Kind.FLAG, _RECEIPT, default=False),
        ),
    ),
    Route(
        name="documents",
        method="GET",
        path="/documents",
        function=Function.RETRIEVE,
        about="List documents, by category, the last updated first.",
        query=(
            text_field("category", _CATEGORY),
            Field("allVersions", Kind.FLAG, "Also versions that were replaced or deleted.", default=False),
            Field("limit", Kind.WHOLE, "How many at most.", default=MAX_PAGE, minimum=1, maximum=MAX_PAGE),
            AFTER,
        ),
    ),
    Route(
        name="document",
        method="GET",
        path="/documents/{documentId}",
        function=Function.RETRIEVE,
        about="A document and its versions; of a current one the beginning of its id is enough.",
        query=(_after_count("versions"),),
    ),
    Route(
        name="chunks",
        method="GET",
        path="/documents/{documentId}/chunks",
        function=Function.RETRIEVE,
        about="The text of a document, in the pieces that are searched.",
        query=(_after_count("pieces"),),
    ),
    Route(
        name="categories",
        method="GET",
        path="/categories",
        function=Function.RETRIEVE,
        about="The kinds of knowledge.",
    ),
    Route(
        name="status",
        method="GET",
        path="/status",
        function=Function.RETRIEVE,
        about="How much there is, what waits, what failed, and whether the index answers.",
    ),
    Route(
        name="failures",
        method="GET",
        path="/failures",
        function=Function.RETRIEVE,
        about="What of the caller's own could not be taken in, the oldest first.",
        query=(
            Field("limit", Kind.WHOLE, "How many at most.", default=MAX_PAGE, minimum=1, maximum=MAX_PAGE),
            AFTER,
        ),
    ),
    Route(
        name="objects",
        method="GET",
        path="/objects",
        function=Function.RETRIEVE,
        about="Keys of the caller's own stored documents.",
        query=(
            text_field(
                "under", "The name of a file, or of a folder of files.", MAX_KEY_CHARACTERS, required=True, minimum=1
            ),
            AFTER,
        ),
    ),
)
