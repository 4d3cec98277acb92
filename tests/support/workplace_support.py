"""Shared by tests of connectors of a company's own tools."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from opx.connectors.connector import Connector, SourceTools
from opx.connectors.registry import checked_options, connector_type
from opx.domain.knowledge import Tier
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.hygiene.addresses import AddressBook
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import MisbehavingSite, a_web


class NamedSecrets:
    """Every secret is its own name with `-value` behind it."""

    def get(self, name: str) -> str:
        return f"{name}-value"


def a_connector(
    kind: str,
    *sites: MisbehavingSite,
    known: Collection[str] = (),
    tools: Mapping[str, Any] | None = None,
    **options: Any,
) -> Connector[Any]:
    """A connector as the registry makes it, that may access these sites and this machine. `known` were ingested before."""
    definition = SourceDefinition("work", kind, "vendor/linux", Tier.INTERNAL, options=options)

    def known_of(keys: Sequence[str]) -> Collection[str]:
        return [key for key in keys if key in known]

    made = SourceTools(
        web=a_web(*sites),
        secrets=NamedSecrets(),
        clock=FakeTime().clock,
        known=known_of,
        **{"addresses": AddressBook(allowed=("127.0.0.1", "localhost")).addresses_of, **(tools or {})},
    )
    return connector_type(kind)(definition, checked_options(definition), made)


def pulled(connector: Connector[Any], since: str = "", cursor: Mapping[str, Any] | None = None) -> list[Page]:
    return list(connector.pull(PullRequest(since, cursor or {})))


def documents_of(pages: Sequence[Page]) -> dict[str, SourceDocument]:
    return {document.key: document for page in pages for document in page.documents}


def named(pages: Sequence[Page]) -> set[str]:
    """Every key that the pages name as there."""
    return {
        key
        for page in pages
        for key in [*(each.key for each in page.documents), *page.unchanged, *(each.key for each in page.refused)]
    }


def text_of(document: SourceDocument) -> str:
    assert isinstance(document.content, str)
    return document.content


def resumed_after_each(connector: Connector[Any], since: str = "") -> Iterator[tuple[list[Page], set[str]]]:
    """For every page of a pull: what a pull that goes on behind it gives, and all that both together name."""
    pages = pulled(connector, since)
    for stop in range(1, len(pages)):
        rest = pulled(connector, since, pages[stop - 1].cursor)
        yield rest, named([*pages[:stop], *rest])
