"""Microsoft Learn, from the public repositories that the site is built of."""

from __future__ import annotations

from dataclasses import dataclass

from opx.errors import InvalidInputError
from opx.sources.community.github_docs import Collection, DocsOptions, RepositoryDocs

_SITE = "https://learn.microsoft.com"
_SUPPORT = "MicrosoftDocs/SupportArticles-docs"


def _troubleshooting(product: str, folder: str = "") -> Collection:
    folder = folder or product
    return Collection(_SUPPORT, f"support/{folder}", f"{_SITE}/troubleshoot/{folder}/{{page}}", "SupportArticles-docs/")


TOPICS: dict[str, Collection] = {
    "azure/monitoring": Collection(
        "MicrosoftDocs/azure-monitor-docs",
        "articles/azure-monitor",
        f"{_SITE}/azure/azure-monitor/{{page}}",
        "azure-monitor-docs/",
    ),
    "azure/troubleshoot": _troubleshooting("azure"),
    "windows-client/troubleshoot": _troubleshooting("windows-client"),
    "windows-server": Collection(
        "MicrosoftDocs/windowsserverdocs", "WindowsServerDocs", f"{_SITE}/windows-server/{{page}}", "windowsserverdocs/"
    ),
    "windows-server/troubleshoot": _troubleshooting("windows-server"),
}
"""Where the pages of each topic are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicrosoftLearnOptions(DocsOptions):
    """`topics` are those of `TOPICS`. What pages include and tables of contents are no documents of their own."""

    topics: tuple[str, ...] = ("windows-server/troubleshoot", "azure/monitoring")
    patterns: tuple[str, ...] = ("*.md",)
    exclude: tuple[str, ...] = ("*/includes/*", "*/toc.md", "*/media/*")


class MicrosoftLearn(RepositoryDocs[MicrosoftLearnOptions]):
    """Pages by topic."""

    options_type = MicrosoftLearnOptions

    def collections(self) -> tuple[Collection, ...]:
        names = sorted({topic.strip("/ ") for topic in self.options.topics})
        unknown = [name for name in names if name not in TOPICS]
        if unknown or not names:
            raise InvalidInputError(
                f"source {self.name}: unknown topic {unknown[0] if unknown else ''!r}; allowed: {', '.join(TOPICS)}"
            )
        return tuple(TOPICS[name] for name in names)
