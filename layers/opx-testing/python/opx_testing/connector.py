"""Contract of `Connector`. A test class inherits this one and provides the fixtures `connect`, `malform` and `fail`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest

from opx.connectors.connector import Connector
from opx.connectors.registry import option_type
from opx.domain.requests import fields_of
from opx.domain.sources import Page, PullRequest, SourceDocument
from opx.errors import ForbiddenAddressError, SourceRefusedError, SourceShapeError, SourceUnavailableError

PULL_ERRORS = (SourceUnavailableError, SourceRefusedError, SourceShapeError, ForbiddenAddressError)
"""Errors that `Connector.pull` may raise."""

MOST_KEY_BYTES = 500
MOST_CURSOR_BYTES = 4096

Connect = Callable[[], Connector[Any]]
"""Makes a connector anew, as each process does that pulls the source."""


def documents(pages: Iterable[Page]) -> dict[str, SourceDocument]:
    return {document.key: document for page in pages for document in page.documents}


def refused(pages: Iterable[Page]) -> dict[str, str]:
    return {one.key: one.reason for page in pages for one in page.refused}


class ConnectorContract:
    """The source has two documents at least, more than one page of them if the connector divides them, and does not change.

    Fixtures: `connect`; `malform`, which makes one of the documents unreadable and returns its key; and `fail`, after which
    the source can't be pulled. Parametrize `fail` to try each failure.
    """

    @pytest.fixture
    def connect(self) -> Connect:
        raise NotImplementedError

    @pytest.fixture
    def malform(self) -> Callable[[], str]:
        raise NotImplementedError

    @pytest.fixture
    def fail(self) -> Callable[[], None]:
        raise NotImplementedError

    # -- the kind

    def test_it_is_described(self, connect: Connect) -> None:
        assert type(connect()).about.strip()

    def test_its_options_are_described_and_of_known_types(self, connect: Connect) -> None:
        for option in fields_of(type(connect()).options_type):
            assert option.about.strip(), option.name
            assert option_type(option)

    # -- pulls

    def test_a_pull_gives_documents(self, connect: Connect) -> None:
        pages = list(connect().pull(PullRequest()))
        assert len(documents(pages)) > 1
        for document in documents(pages).values():
            assert document.content
            assert all(isinstance(name, str) for name in document.metadata)

    def test_keys_are_short_and_unique(self, connect: Connect) -> None:
        keys = [document.key for page in connect().pull(PullRequest()) for document in page.documents]
        assert len(keys) == len(set(keys))
        assert all(0 < len(key.encode()) <= MOST_KEY_BYTES for key in keys)

    def test_pulling_again_gives_the_same(self, connect: Connect) -> None:
        first, again = (list(connect().pull(PullRequest())) for _ in range(2))
        assert first == again

    def test_one_connector_pulls_more_than_once(self, connect: Connect) -> None:
        connector = connect()
        first, again = (documents(connector.pull(PullRequest())) for _ in range(2))
        assert first == again

    def test_cursors_are_small_and_survive_json(self, connect: Connect) -> None:
        for page in connect().pull(PullRequest()):
            text = json.dumps(page.cursor)
            assert json.loads(text) == page.cursor
            assert len(text.encode()) <= MOST_CURSOR_BYTES

    def test_a_pull_goes_on_behind_each_page(self, connect: Connect) -> None:
        whole = list(connect().pull(PullRequest()))
        for count in range(1, len(whole) + 1):
            before = list(islice(connect().pull(PullRequest()), count))
            after = list(connect().pull(PullRequest(cursor=before[-1].cursor)))
            assert after, f"no page behind page {count}"
            assert documents([*before, *after]) == documents(whole)
            assert after[-1].complete == whole[-1].complete

    def test_only_the_last_page_is_complete(self, connect: Connect) -> None:
        *others, _ = connect().pull(PullRequest())
        assert not any(page.complete for page in others)

    def test_changes_are_documents_of_the_whole(self, connect: Connect) -> None:
        whole = documents(connect().pull(PullRequest()))
        changes = documents(connect().pull(PullRequest("2026-01-01T00:00:00Z")))
        assert changes.items() <= whole.items()

    # -- what can't be read

    def test_a_malformed_document_is_refused_and_the_others_are_read(
        self, connect: Connect, malform: Callable[[], str]
    ) -> None:
        expected = documents(connect().pull(PullRequest()))
        key = malform()
        pages = list(connect().pull(PullRequest()))
        assert refused(pages)[key].strip()
        assert documents(pages) == {name: document for name, document in expected.items() if name != key}

    def test_a_source_that_fails_raises_what_a_pull_may(self, connect: Connect, fail: Callable[[], None]) -> None:
        fail()
        with pytest.raises(PULL_ERRORS, match=r"\S"):
            list(connect().pull(PullRequest()))

    def test_a_check_reports_a_failure_and_does_not_raise(self, connect: Connect, fail: Callable[[], None]) -> None:
        assert connect().check().ok
        fail()
        health = connect().check()
        assert not health.ok
        assert health.reason.strip()
