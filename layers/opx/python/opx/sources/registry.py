"""Which kinds of sources there are. Their modules are imported when one is made."""

from __future__ import annotations

import importlib
from typing import Any

from opx.domain.record import replace
from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError
from opx.operations.requests import fields_of
from opx.sources.connector import Connector, read_options
from opx.sources.kinds import ABOUT
from opx.sources.presets import PRESETS

CONNECTORS: dict[str, str] = {
    "attack": "security.attack:AttackConnector",
    "brave_search": "community.web_results:BraveSearch",
    "confluence": "workplace.confluence:ConfluenceConnector",
    "crawl": "web.crawl:WebCrawl",
    "directory": "directory:Directory",
    "discourse": "community.discourse:Discourse",
    "feed": "web.feed:WebFeed",
    "git_history": "workplace.git_history:GitHistoryConnector",
    "github_discussions": "community.github_discussions:GitHubDiscussions",
    "github_docs": "community.github_docs:GitHubDocs",
    "github_issues": "community.github_issues:GitHubIssues",
    "google_search": "community.web_results:GoogleSearch",
    "imap": "workplace.imap:ImapConnector",
    "jira": "workplace.jira:JiraConnector",
    "mailbox": "workplace.mailbox_files:MailboxConnector",
    "microsoft_learn": "community.microsoft_learn:MicrosoftLearn",
    "nvd": "security.nvd:NvdConnector",
    "rfc": "standards.rfc:RfcConnector",
    "s3_prefix": "workplace.s3_prefix:S3PrefixConnector",
    "slack_export": "workplace.slack_export:SlackExportConnector",
    "stack_overflow": "community.stack_overflow:StackOverflow",
}
"""Module (below `opx.sources`) and class of the connector of each kind."""


def resolved(definition: SourceDefinition) -> SourceDefinition:
    """A source of a preset's kind as one of the kind that the preset is made of; any other as it is."""
    if definition.kind not in PRESETS:
        return definition
    preset = PRESETS[definition.kind]
    return replace(definition, kind=preset.kind, options=preset.completed(definition.options))


def connector_type(kind: str) -> type[Connector[Any]]:
    """The connector of a kind, or of a preset's. Raises `InvalidInputError` that lists the kinds."""
    base = PRESETS[kind].kind if kind in PRESETS else kind
    if base not in CONNECTORS:
        allowed = ", ".join(sorted({*CONNECTORS, *PRESETS}))
        raise InvalidInputError(f"unknown kind of source {kind!r}; allowed: {allowed}")
    module, _, name = CONNECTORS[base].partition(":")
    found: type[Connector[Any]] = getattr(importlib.import_module(f"opx.sources.{module}"), name)
    return found


def checked_options(definition: SourceDefinition) -> Any:
    """The options of a source, as its connector takes them. Raises `InvalidInputError`."""
    kind, options = connector_type(definition.kind), resolved(definition).options
    return read_options(kind.options_type, options, of=f"source {definition.source_id} ({definition.kind})")


def described_kinds() -> list[tuple[str, str, list[str]]]:
    """Every kind with what it is and its options; those that must be given end with `*`."""
    found = []
    for kind in sorted(ABOUT):
        preset = PRESETS.get(kind)
        options = [
            f"{each.name}{'*' if each.required and not (preset and each.name in preset.options) else ''}"
            for each in fields_of(connector_type(kind).options_type)
        ]
        found.append((kind, ABOUT[kind], ["topics", *options] if preset and preset.topics else options))
    return found
