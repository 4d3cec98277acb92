"""Well-known sources: kinds that are another kind with its options filled in. What a user sets replaces it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class Preset:
    """`kind` is the connector's, `options` are those that differ from its defaults.

    `topics` says which options the source's option `topics` sets, and what each topic becomes there (`/{topic}/`);
    `default_topics` are those of a source that names none. An option that a user sets is taken as it is.
    """

    kind: str
    options: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    default_topics: tuple[str, ...] = ()

    def completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All options of a source of this kind, for its connector."""
        own = dict(given)
        topics = own.pop(TOPICS, self.default_topics) if self.topics else ()
        named = [topics] if isinstance(topics, str) else topics
        if not isinstance(named, list | tuple) or not all(isinstance(topic, str) for topic in named):
            return {**self.options, **given}  # the connector's options say what is wrong with it
        clean = [topic.strip("/ ") for topic in named]
        by_topic = {
            option: tuple(form.format(topic=topic) for topic in clean) for option, form in self.topics.items() if clean
        }
        return {**self.options, **by_topic, **own}


PRESETS: dict[str, Preset] = {
    "aws_docs": Preset(
        "crawl",
        {"depth": 0, "max_pages": 50_000, "requests_per_second": 2.0},
        topics={"sitemaps": "https://docs.aws.amazon.com/{topic}/sitemap.xml", "include": "/{topic}/"},
        default_topics=(
            "AWSEC2/latest/UserGuide",
            "AmazonCloudWatch/latest/monitoring",
            "AmazonRDS/latest/UserGuide",
            "AmazonS3/latest/userguide",
            "IAM/latest/UserGuide",
            "eks/latest/userguide",
            "lambda/latest/dg",
        ),
    ),
    "azure_docs": Preset(
        "github_docs",
        {
            "repository": "MicrosoftDocs/azure-docs",
            "paths": ("articles",),
            "patterns": ("*.md",),
            "exclude": ("*/includes/*", "*/toc.md", "*/media/*"),
            "source_uri": "https://learn.microsoft.com/azure/{page}",
        },
    ),
    "distro_kb": Preset(
        "crawl",
        {
            "start": ("https://documentation.ubuntu.com/server/",),
            "sitemaps": ("https://docs.redhat.com/sitemaps/docs/docs-sitemap-index.xml",),
            "exclude": ("*/_sources/", "*/genindex", "*/search/"),
            "depth": 4,
            "max_pages": 50_000,
        },
        topics={"include": "/{topic}/"},
        default_topics=("en/documentation/red_hat_enterprise_linux/9/html", "server"),
    ),
    "gcp_docs": Preset(
        "crawl",
        {
            "sitemaps": ("https://docs.cloud.google.com/sitemap.xml",),
            "exclude": ("*?hl=", "*&hl=", "*/docs/reference/"),
            "depth": 0,
            "max_pages": 50_000,
            "requests_per_second": 2.0,
        },
        topics={"include": "/{topic}/"},
        default_topics=(
            "compute/docs",
            "iam/docs",
            "kubernetes-engine/docs",
            "logging/docs",
            "monitoring/docs",
            "sql/docs",
            "storage/docs",
            "vpc/docs",
        ),
    ),
    "linux_kernel": Preset(
        "github_docs",
        {
            "repository": "torvalds/linux",
            "paths": ("Documentation",),
            "patterns": ("*.rst",),
            "exclude": ("*/translations/*",),
            "source_uri": "https://docs.kernel.org/{page}.html",
        },
    ),
    "owasp": Preset(
        "github_docs",
        {
            "repository": "OWASP/CheatSheetSeries",
            "paths": ("cheatsheets",),
            "patterns": ("*.md",),
            "source_uri": "https://cheatsheetseries.owasp.org/cheatsheets/{page}.html",
        },
    ),
}
"""By kind.

`aws_docs`: topics are guides; each has a sitemap of its own. `gcp_docs`: topics are products; one index lists all pages
in all languages, others than English with `hl`. `distro_kb`: Red Hat lists one page a chapter below `html` and the same
books whole below `html-single`; Ubuntu's server guide is crawled. ArchWiki is left out: it turns robots away.
"""
