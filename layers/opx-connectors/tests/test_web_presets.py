from __future__ import annotations

from typing import Any

import pytest

from opx.connectors.registry import Preset, checked_options, connector_type, resolved
from opx.domain.knowledge import Tier
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError
from opx_connectors.web.crawl import WebCrawl
from opx_connectors.web.urls import crawl_scope


def definition(kind: str, **options: Any) -> SourceDefinition:
    return SourceDefinition("any", kind, "cloud", Tier.SPECIALIZED, options=options)


def test_a_preset_is_another_kind_with_its_options_filled_in() -> None:
    found = resolved(definition("gcp_docs"))
    assert found.kind == "crawl"
    assert found.options["sitemaps"] == ("https://docs.cloud.google.com/sitemap.xml",)
    assert connector_type("gcp_docs") is WebCrawl


def test_other_kinds_are_what_they_are() -> None:
    source = definition("crawl", start="https://e.org/")
    assert resolved(source) is source


@pytest.mark.parametrize("kind", ["aws_docs", "azure_docs", "distro_kb", "gcp_docs", "linux_kernel", "owasp"])
def test_every_preset_has_options_that_its_connector_takes(kind: str) -> None:
    assert checked_options(definition(kind))


def test_topics_choose_what_is_read() -> None:
    options = checked_options(definition("aws_docs", topics=("/AmazonECS/latest/developerguide/",)))
    assert options.sitemaps == ("https://docs.aws.amazon.com/AmazonECS/latest/developerguide/sitemap.xml",)
    assert options.include == ("/AmazonECS/latest/developerguide/",)


def test_one_topic_may_be_a_text() -> None:
    assert checked_options(definition("gcp_docs", topics="run/docs")).include == ("/run/docs/",)


def test_option_of_the_user_replaces_that_of_the_preset() -> None:
    options = checked_options(definition("gcp_docs", sitemaps=["http://127.0.0.1/map.xml"], max_pages=5))
    assert (options.sitemaps, options.max_pages) == (("http://127.0.0.1/map.xml",), 5)
    assert options.include


@pytest.mark.parametrize("topics", [5, [1], {"a": 1}])
def test_topics_that_are_no_texts_are_refused(topics: object) -> None:
    with pytest.raises(InvalidInputError, match="topics"):
        checked_options(definition("gcp_docs", topics=topics))


def test_kinds_without_topics_take_none() -> None:
    with pytest.raises(InvalidInputError, match="topics"):
        checked_options(definition("crawl", start="https://e.org/", topics=("x",)))
    read = Preset("crawl", "", {"start": ("https://e.org/",)}).completed({"topics": ("x",)})
    with pytest.raises(InvalidInputError, match="topics"):
        checked_options(definition("crawl", **read))


def test_an_unknown_kind_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"aws_docs.*crawl.*feed"):
        connector_type("gopher")


@pytest.mark.parametrize(
    ("kind", "url", "expected"),
    [
        ("gcp_docs", "https://docs.cloud.google.com/compute/docs/instances", True),
        ("gcp_docs", "https://docs.cloud.google.com/compute/docs/instances?hl=de", False),
        ("gcp_docs", "https://docs.cloud.google.com/compute/docs/reference/rest/v1", False),
        ("gcp_docs", "https://docs.cloud.google.com/java/docs/reference/x", False),
        ("distro_kb", "https://documentation.ubuntu.com/server/how-to/networking/", True),
        ("distro_kb", "https://documentation.ubuntu.com/lxd/", False),
        ("distro_kb", "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/x/y", True),
        ("distro_kb", "https://docs.redhat.com/ja/documentation/red_hat_enterprise_linux/9/html/x/y", False),
        ("distro_kb", "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html-single/x", False),
    ],
)
def test_presets_take_their_pages_alone(kind: str, url: str, expected: bool) -> None:
    options = checked_options(definition(kind))
    scope = crawl_scope((*options.start, *options.sitemaps), options.hosts, options.include, options.exclude)
    assert scope.has(url) is expected
