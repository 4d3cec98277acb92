"""Sources that the program around the library brings itself: anything with `fetch` and `health_check`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from opx.connectors.connector import Connector, Options, SourceTools
from opx.domain.sources import KnowledgeSource, Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SourceUnavailableError

PAGE_DOCUMENTS = 100
KIND = "provided"


class NoOptions(Options, frozen=True):
    """There is nothing to choose."""


class ProvidedSource(Connector[NoOptions]):
    """A source as an object of this process. It has no cursor: a pull that is interrupted begins again."""

    options_type = NoOptions

    def __init__(self, definition: SourceDefinition, source: KnowledgeSource, tools: SourceTools) -> None:
        super().__init__(definition, NoOptions(), tools)
        self._source = source

    def pull(self, request: PullRequest) -> Iterator[Page]:
        documents: Iterator[SourceDocument] = iter(self._source.fetch(request.since or None))
        while page := tuple(islice(documents, PAGE_DOCUMENTS)):
            yield Page(page)

    def probe(self) -> None:
        if not self._source.health_check():
            raise SourceUnavailableError(f"source {self.name} says that it can't be fetched from now")
