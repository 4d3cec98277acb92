"""Shared by tests of the security and standards connectors: a connector with a real client, and a corpus of its pages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from opx.connectors.connector import Connector, SourceTools, nothing_known, read_options
from opx.connectors.registry import connector_type
from opx.domain.knowledge import Tier
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import SecretNotFoundError
from opx.ports.sources import WebClient
from opx_testing.fake_time import FakeTime


class SomeSecrets:
    """`Secrets` in memory."""

    def __init__(self, **known: str) -> None:
        self._known = known

    def get(self, name: str) -> str:
        if name not in self._known:
            raise SecretNotFoundError(f"no secret {name}")
        return self._known[name]


def a_connector(
    kind: str,
    web: WebClient,
    options: Mapping[str, Any],
    *,
    time: FakeTime | None = None,
    known: Callable[[Sequence[str]], Collection[str]] = nothing_known,
    **secrets: str,
) -> Connector[Any]:
    found = connector_type(kind)
    definition = SourceDefinition("feed", kind, "security/cve", Tier.SPECIALIZED, options=options)
    tools = SourceTools(web, SomeSecrets(**secrets), (time or FakeTime()).clock, known)
    return found(definition, read_options(found.options_type, options, of="feed"), tools)


class Corpus:
    """The documents of pulls, stored page by page as the puller does."""

    def __init__(self) -> None:
        self.documents: dict[str, SourceDocument] = {}
        self.put: list[str] = []
        self.withdrawn: list[str] = []
        self.refused: dict[str, str] = {}
        self.last = Page()

    def pull(self, connector: Connector[Any], since: str = "", *, cursor: Mapping[str, Any] | None = None) -> Corpus:
        self.store(connector.pull(PullRequest(since, cursor or {})))
        return self

    def store(self, pages: Iterable[Page]) -> None:
        for page in pages:
            for document in page.documents:
                if self.documents.get(document.key) != document:
                    self.put.append(document.key)
                self.documents[document.key] = document
            for key in page.withdrawn:
                self.documents.pop(key, None)
                self.withdrawn.append(key)
            self.refused.update({one.key: one.reason for one in page.refused})
            self.last = page

    def known(self, keys: Sequence[str]) -> Collection[str]:
        return self.documents.keys() & set(keys)

    def text(self, key: str) -> str:
        content = self.documents[key].content
        assert isinstance(content, str)
        return content

    def interrupted(self, connector: Connector[Any], *, after: int, since: str = "") -> dict[str, Any]:
        """Store so many pages of a pull, and give the cursor behind them."""
        pages = connector.pull(PullRequest(since))
        self.store(islice(pages, after))
        return dict(self.last.cursor)
