"""Pulls results of a search engine for fixed queries."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Annotated, Generic, TypeVar

from opx.connectors.connector import Connector, Options, SourceTools, Texts
from opx.domain.ids import shortened, stable_hash
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, RateLimit, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError
from opx.formats.markdown import nested, one_line, storable
from opx_web.live.providers import (
    BRAVE_URL,
    GOOGLE_URL,
    MAX_RESULTS,
    BraveWebSearch,
    GoogleWebSearch,
    WebResult,
    WebSearch,
)


class WebResultsOptions(Options, frozen=True, kw_only=True):
    """Options of web searches. Each pull sends all queries."""

    queries: Annotated[Texts, about("Questions to search for.")]
    key_secret: Annotated[str, about("The name of the secret with the key of the search engine.")]
    results: Annotated[int, about("Results of each query that are kept, 10 at most.")] = 5


class BraveOptions(WebResultsOptions, frozen=True, kw_only=True):
    base_url: Annotated[str, about("The address of the API.")] = BRAVE_URL


class GoogleOptions(WebResultsOptions, frozen=True, kw_only=True):
    """Options of a Programmable Search Engine."""

    search_engine_id: Annotated[str, about("The `cx` of a Programmable Search Engine.")]
    base_url: Annotated[str, about("The address of the API.")] = GOOGLE_URL


O = TypeVar("O", bound=WebResultsOptions)  # noqa: E741 - options


class _WebResults(Connector[O], Generic[O]):
    """Pulls a page per query. Results that an engine doesn't return any more aren't withdrawn: they expire with their
    category."""

    limit = RateLimit(1, 1.1)  # what the smallest plans allow

    def __init__(self, definition: SourceDefinition, options: O, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        if not options.queries or not 1 <= options.results <= MAX_RESULTS:
            raise InvalidInputError(f"source {self.name}: set queries, and results from 1 to {MAX_RESULTS}")

    @abstractmethod
    def engine(self) -> WebSearch:
        """Returns the search engine."""

    def probe(self) -> None:
        self.engine().search(self.options.queries[0], 1)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        engine = self.engine()
        for at in range(int(request.cursor.get("at", 0)), len(self.options.queries)):
            query = self.options.queries[at]
            found = engine.search(query, self.options.results)
            yield Page(documents=tuple(_document(each, query) for each in found), cursor={"at": at + 1})
        if request.cursor.get("at", 0) >= len(self.options.queries):
            yield Page()


class BraveSearch(_WebResults[BraveOptions]):
    """Results of Brave's search engine."""

    about = "results of Brave's search engine for recurring questions"

    def engine(self) -> WebSearch:
        return BraveWebSearch(self.web, self.secrets.get(self.options.key_secret), self.options.base_url)


class GoogleSearch(_WebResults[GoogleOptions]):
    """Results of one of Google's Programmable Search Engines."""

    about = "results of a Google Programmable Search Engine for recurring questions"

    def engine(self) -> WebSearch:
        options = self.options
        return GoogleWebSearch(
            self.web, self.secrets.get(options.key_secret), options.search_engine_id, options.base_url
        )


def _document(found: WebResult, query: str) -> SourceDocument:
    title, tag = shortened(one_line(storable(found.title)), 300), shortened(one_line(storable(query)), 100)
    updated = found.published[:10] if found.published[:4].isdigit() else ""
    metadata = {
        "title": title,
        "source_uri": storable(found.url),
        "tags": [tag] if tag else [],
        "last_updated": updated,
    }
    known = {name: value for name, value in metadata.items() if value}
    text = f"# {title}\n\n{nested(found.text, 2)}".rstrip() + "\n"
    return SourceDocument(stable_hash("web", found.url)[:32], text, known)
