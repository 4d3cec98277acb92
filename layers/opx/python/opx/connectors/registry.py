"""Registry of the kinds of sources. A connector's module is imported when the connector is created."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any

from msgspec import inspect

from opx.connectors.connector import Connector, read_options
from opx.domain.knowledge import KnowledgeModel
from opx.domain.record import Record, about, replace
from opx.domain.requests import FieldFacts, fields_of
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError

TOPICS = "topics"


@dataclass(frozen=True, slots=True)
class Preset:
    """A kind of source with preset options. `kind` is the connector's, `about` describes it, `options` are those that
    differ from its defaults.

    `topics` maps each option that the source's option `topics` sets to the template of a topic (`/{topic}/`);
    `default_topics` are those of a source that names none. An option that a user sets is used unchanged.
    """

    kind: str
    about: str
    options: Mapping[str, Any] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)
    default_topics: tuple[str, ...] = ()

    def completed(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns all options of a source of this kind, for its connector."""
        own = dict(given)
        topics = own.pop(TOPICS, self.default_topics) if self.topics else ()
        named = [topics] if isinstance(topics, str) else topics
        if not isinstance(named, list | tuple) or not all(isinstance(topic, str) for topic in named):
            return {**self.options, **given}  # the connector's options report what is wrong with it
        clean = [topic.strip("/ ") for topic in named]
        by_topic = {
            option: tuple(form.format(topic=topic) for topic in clean) for option, form in self.topics.items() if clean
        }
        return {**self.options, **by_topic, **own}


PRESETS: dict[str, Preset] = {
    "aws_docs": Preset(
        "crawl",
        "documentation of AWS services, by topics",
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
        "Azure documentation, from its repository",
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
        "public documentation of Linux distributions",
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
        "documentation of Google Cloud, by topics",
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
        "the kernel's documentation, from its repository",
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
        "the OWASP Cheat Sheet Series",
        {
            "repository": "OWASP/CheatSheetSeries",
            "paths": ("cheatsheets",),
            "patterns": ("*.md",),
            "source_uri": "https://cheatsheetseries.owasp.org/cheatsheets/{page}.html",
        },
    ),
}
"""Presets by kind.

`aws_docs`: topics are guides; each has a sitemap of its own. `gcp_docs`: topics are products; one index lists all pages
in all languages, others than English with `hl`. `distro_kb`: Red Hat lists one page a chapter below `html` and the same
books whole below `html-single`; Ubuntu's server guide is crawled. ArchWiki is left out: it turns robots away.
"""


CONNECTORS: dict[str, tuple[str, str]] = {
    "attack": (
        "security.attack:AttackConnector",
        "MITRE ATT&CK: techniques, mitigations, groups, software and tactics",
    ),
    "brave_search": (
        "web.search_results:BraveSearch",
        "results of Brave's search engine for recurring questions",
    ),
    "confluence": ("atlassian.confluence:ConfluenceConnector", "pages of Confluence spaces, Cloud and Data Center"),
    "crawl": ("web.crawl:WebCrawl", "a web site: from addresses or sitemaps, within its robots.txt"),
    "directory": ("files:Directory", "files of a directory of this machine"),
    "discourse": ("forums.discourse:Discourse", "topics of a vendor's forum that runs on Discourse"),
    "feed": ("web.feed:WebFeed", "entries of RSS and Atom feeds, such as engineering blogs"),
    "git_history": ("git_history:GitHistoryConnector", "commits of a git repository"),
    "github_discussions": (
        "github.discussions:GitHubDiscussions",
        "discussions of a GitHub repository, with their answers",
    ),
    "github_docs": ("github.repository_docs:GitHubDocs", "documents in a GitHub repository"),
    "github_issues": ("github.issues:GitHubIssues", "issues of a GitHub repository, with their comments"),
    "google_search": (
        "web.search_results:GoogleSearch",
        "results of a Google Programmable Search Engine for recurring questions",
    ),
    "imap": ("mail.imap:ImapConnector", "messages of a mailbox"),
    "jira": ("atlassian.jira:JiraConnector", "issues of Jira, Cloud and Data Center, with comments and links"),
    "mailbox": (
        "mail.mailbox_files:MailboxConnector",
        "messages in .eml files, an mbox file or a Maildir of this machine",
    ),
    "microsoft_learn": (
        "github.repository_docs:MicrosoftLearn",
        "troubleshooting and reference of Microsoft Learn, by topics",
    ),
    "nvd": ("security.nvd:NvdConnector", "CVEs of the NVD, joined with CISA's known exploited ones and EPSS"),
    "rfc": ("web.rfc:RfcConnector", "RFCs of the IETF, with what they obsolete and update"),
    "s3_prefix": ("files:S3PrefixConnector", "objects of another bucket"),
    "slack_export": (
        "slack_export:SlackExportConnector",
        "threads and days of a Slack export on this machine",
    ),
    "stack_overflow": (
        "forums.stack_overflow:StackOverflow",
        "questions of Stack Overflow and its sister sites, with their answers",
    ),
}
"""Module (below `opx.connectors`) and class of the connector of each kind, and its description for users."""


def resolved(definition: SourceDefinition) -> SourceDefinition:
    """Replaces a preset's kind by its connector's kind with all options; other definitions are returned unchanged."""
    if definition.kind not in PRESETS:
        return definition
    preset = PRESETS[definition.kind]
    return replace(definition, kind=preset.kind, options=preset.completed(definition.options))


def connector_type(kind: str) -> type[Connector[Any]]:
    """Returns the connector class of a kind, or of a preset's. Raises `InvalidInputError` that lists the kinds."""
    check_kind(kind)
    base = PRESETS[kind].kind if kind in PRESETS else kind
    module, _, name = CONNECTORS[base][0].partition(":")
    found: type[Connector[Any]] = getattr(importlib.import_module(f"opx.connectors.{module}"), name)
    return found


def check_kind(kind: str) -> None:
    """Raises `InvalidInputError` for a kind that doesn't exist."""
    if kind not in CONNECTORS and kind not in PRESETS:
        allowed = ", ".join(sorted({*CONNECTORS, *PRESETS}))
        raise InvalidInputError(f"unknown kind of source {kind!r}; allowed: {allowed}")


def checked_options(definition: SourceDefinition) -> Any:
    """Returns the validated options of a source. Raises `InvalidInputError`."""
    kind, options = connector_type(definition.kind), resolved(definition).options
    return read_options(kind.options_type, options, of=f"source {definition.source_id} ({definition.kind})")


class OptionType(StrEnum):
    """TEXTS: a list of texts; one text is a list of one."""

    TEXT = "text"
    TEXTS = "texts"
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"


class SourceOption(Record, frozen=True, omit_defaults=True):
    """An option of a kind of source."""

    name: str
    type: OptionType
    about: str
    required: bool = False
    is_secret: Annotated[bool, about("True if its value is the name of a secret, which is set elsewhere.")] = False
    default: Annotated[Any, about("Its value if it isn't given: a text, a list of texts, a number or a flag.")] = None


class SourceKind(Record, frozen=True, omit_defaults=True):
    """A kind of source."""

    kind: str
    about: str
    options: tuple[SourceOption, ...]
    category: Annotated[str, about("The category of its documents, unless one is given.")] = ""
    is_local: Annotated[bool, about("True if it reads files of the machine that pulls.")] = False


def source_kinds(knowledge: KnowledgeModel) -> tuple[SourceKind, ...]:
    """Returns every kind with its options, by name."""
    return tuple(_described(kind, knowledge) for kind in sorted({*CONNECTORS, *PRESETS}))


def _described(kind: str, knowledge: KnowledgeModel) -> SourceKind:
    preset, connector = PRESETS.get(kind), connector_type(kind)
    options = [_option(each, preset) for each in fields_of(connector.options_type)]
    if preset and preset.topics:
        about = f"Topics, which set {' and '.join(preset.topics)}."
        options.insert(0, SourceOption(TOPICS, OptionType.TEXTS, about, default=preset.default_topics))
    category = knowledge.category_of_connector(kind)
    return SourceKind(
        kind,
        preset.about if preset else CONNECTORS[kind][1],
        tuple(options),
        category=category.path if category else "",
        is_local=connector.local,
    )


def _option(field: FieldFacts, preset: Preset | None) -> SourceOption:
    set_before = preset.options.get(field.name) if preset else None
    return SourceOption(
        field.name,
        _option_type(field),
        field.about,
        required=field.required and set_before is None,
        is_secret=field.name.endswith("_secret"),
        default=field.default if set_before is None else set_before,
    )


def _option_type(field: FieldFacts) -> OptionType:
    if field.is_list:
        return OptionType.TEXTS
    types = {
        inspect.BoolType: OptionType.FLAG,
        inspect.IntType: OptionType.INTEGER,
        inspect.FloatType: OptionType.NUMBER,
        inspect.StrType: OptionType.TEXT,
    }
    return types[type(field.kind)]
