"""Contract suites fail for connectors and formats that break the contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from opx.connectors.connector import Connector, Options, SourceTools
from opx.domain.knowledge import Tier
from opx.domain.sources import Health, Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import UnparsableDocumentError
from opx.formats import registry
from opx.formats.source import Format, ParsedSource, Source
from opx_testing.connector import ConnectorContract
from opx_testing.format import FormatContract, Sample
from tests.support.web_support import NoSecrets

ONE, TWO = (SourceDocument(key, f"# {key}", {"title": key}) for key in ("one", "two"))
SUITE = ConnectorContract()


class Undescribed(Options, frozen=True):
    path: str = ""


class Scripted(Connector[Undescribed]):
    """Gives these pages, whatever the cursor."""

    pages: Sequence[Page] = (Page((ONE,), cursor={"after": 1}), Page((TWO,), complete=True))
    pulls = 0

    def pull(self, request: PullRequest) -> Iterator[Page]:
        Scripted.pulls += 1
        yield from self.pages

    def probe(self) -> None:
        raise KeyError("host")


def a_connector_of(kind: type[Scripted]) -> Scripted:
    definition = SourceDefinition("any", "scripted", "cloud", Tier.SPECIALIZED)
    return kind(definition, Undescribed(), SourceTools(None, NoSecrets(), lambda: 0.0))  # type: ignore[arg-type]


def of(*pages: Page) -> type[Scripted]:
    return type("OfPages", (Scripted,), {"pages": pages})


class Forgetful(Scripted):
    def pull(self, request: PullRequest) -> Iterator[Page]:
        yield from () if request.cursor else self.pages


class Wavering(Scripted):
    def pull(self, request: PullRequest) -> Iterator[Page]:
        Scripted.pulls += 1
        yield Page((ONE, SourceDocument(f"at-{Scripted.pulls}", "text")))


class Raising(Scripted):
    def pull(self, request: PullRequest) -> Iterator[Page]:
        raise KeyError("records")


class Optimistic(Scripted):
    def check(self) -> Health:
        return Health(ok=True)


@pytest.mark.parametrize(
    ("test", "kind"),
    [
        (SUITE.test_it_is_described, Scripted),
        (SUITE.test_its_options_are_described_and_of_known_types, Scripted),
        (SUITE.test_a_pull_gives_documents, of()),
        (SUITE.test_keys_are_short_and_unique, of(Page((ONE,)), Page((ONE,)))),
        (SUITE.test_keys_are_short_and_unique, of(Page((SourceDocument("x" * 501, "text"),)))),
        (SUITE.test_pulling_again_gives_the_same, Wavering),
        (SUITE.test_one_connector_pulls_more_than_once, Wavering),
        (SUITE.test_cursors_are_small_and_survive_json, of(Page(cursor={"at": (1,)}))),
        (SUITE.test_cursors_are_small_and_survive_json, of(Page(cursor={"at": "x" * 5000}))),
        (SUITE.test_a_pull_goes_on_behind_each_page, Forgetful),
        (SUITE.test_only_the_last_page_is_complete, of(Page(complete=True), Page())),
    ],
)
def test_a_connector_that_breaks_its_contract_fails(test: object, kind: type[Scripted]) -> None:
    with pytest.raises(AssertionError):
        test(lambda: a_connector_of(kind))  # type: ignore[operator]


def test_an_error_that_a_pull_does_not_raise_fails() -> None:
    with pytest.raises(KeyError):
        SUITE.test_a_source_that_fails_raises_what_a_pull_may(lambda: a_connector_of(Raising), lambda: None)


def test_a_check_that_always_fails_or_sees_no_failure_fails() -> None:
    for kind in (Scripted, Optimistic):
        with pytest.raises(AssertionError):
            SUITE.test_a_check_reports_a_failure_and_does_not_raise(partial(a_connector_of, kind), lambda: None)


def test_a_malformed_document_that_is_not_refused_fails() -> None:
    with pytest.raises(KeyError):
        SUITE.test_a_malformed_document_is_refused_and_the_others_are_read(
            lambda: a_connector_of(Scripted), lambda: "one"
        )


# -- formats


SAMPLE = Sample("broken", "a.broken", b"text", ("text",))


def unnamed(source: Source) -> ParsedSource:
    raise UnparsableDocumentError("it is broken")


def raising(source: Source) -> ParsedSource:
    raise IndexError


def unnormalised(source: Source) -> ParsedSource:
    return ParsedSource(None, {}, iter(["Cafe\u0301\r\n"]))


def of_two_lines(source: Source) -> ParsedSource:
    return ParsedSource(None, {}, iter(["a\nb\n"]))


def half_a_character(source: Source) -> ParsedSource:
    return ParsedSource(None, {}, iter(["\ud800"]))


@pytest.mark.parametrize("parser", [unnamed, raising, unnormalised, of_two_lines, half_a_character])
def test_a_format_that_breaks_its_contract_fails(parser: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_formats", lambda: {"broken": Format(".broken")})
    monkeypatch.setattr(registry, "_extensions", lambda: {".broken": "broken"})
    monkeypatch.setattr(registry, "_parser", lambda form: parser)
    with pytest.raises((AssertionError, IndexError, UnicodeError)):
        FormatContract().test_a_sample_is_well_formed(SAMPLE)
