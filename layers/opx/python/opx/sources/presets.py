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
"""By kind."""
