"""Microsoft Learn, from the public repositories that the site is built of."""

from __future__ import annotations

from opx.errors import InvalidInputError
from opx.sources.community.repository_docs import Collection, DocsOptions, RepositoryDocs
from opx.sources.connector import Texts


def _topic(repository: str, folder: str, site: str) -> Collection:
    return Collection(
        f"MicrosoftDocs/{repository}",
        folder,
        source_uri=f"https://learn.microsoft.com/{site}/{{page}}",
        key_prefix=f"{repository}/",
    )


TOPICS: dict[str, Collection] = {
    "azure/monitoring": _topic("azure-monitor-docs", "articles/azure-monitor", "azure/azure-monitor"),
    "azure/troubleshoot": _topic("SupportArticles-docs", "support/azure", "troubleshoot/azure"),
    "windows-client/troubleshoot": _topic(
        "SupportArticles-docs", "support/windows-client", "troubleshoot/windows-client"
    ),
    "windows-server": _topic("windowsserverdocs", "WindowsServerDocs", "windows-server"),
    "windows-server/troubleshoot": _topic(
        "SupportArticles-docs", "support/windows-server", "troubleshoot/windows-server"
    ),
}
"""Where the pages of each topic are."""


class MicrosoftLearnOptions(DocsOptions, frozen=True, kw_only=True):
    """`topics` are those of `TOPICS`. What pages include and tables of contents are no documents of their own."""

    topics: Texts = ("windows-server/troubleshoot", "azure/monitoring")
    patterns: Texts = ("*.md",)
    exclude: Texts = ("*/includes/*", "*/toc.md", "*/media/*")


class MicrosoftLearn(RepositoryDocs[MicrosoftLearnOptions]):
    """Pages of Microsoft Learn, by topic."""

    options_type = MicrosoftLearnOptions

    def collections(self) -> tuple[Collection, ...]:
        names = sorted({topic.strip("/ ") for topic in self.options.topics})
        unknown = [name for name in names if name not in TOPICS]
        if unknown or not names:
            raise InvalidInputError(
                f"source {self.name}: unknown topic {unknown[0] if unknown else ''!r}; allowed: {', '.join(TOPICS)}"
            )
        return tuple(TOPICS[name] for name in names)
