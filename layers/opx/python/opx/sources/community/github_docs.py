"""Documents in folders of one GitHub repository."""

from __future__ import annotations

from itertools import pairwise

from opx.domain.sources import SourceDefinition
from opx.errors import InvalidInputError
from opx.sources.community.github_api import checked_repository
from opx.sources.community.repository_docs import Collection, DocsOptions, RepositoryDocs
from opx.sources.connector import SourceTools, Texts


class GitHubDocsOptions(DocsOptions, frozen=True, kw_only=True):
    """`repository` is owner/name, `paths` folders in it. `source_uri` is the address of a document, where `{page}`
    stands for its path below the folder without extension, and `{path}` for its path in the repository; without it,
    GitHub's page."""

    repository: str
    paths: Texts = ()
    source_uri: str = ""


class GitHubDocs(RepositoryDocs[GitHubDocsOptions]):
    """Documents in folders of one repository."""

    options_type = GitHubDocsOptions

    def __init__(self, definition: SourceDefinition, options: GitHubDocsOptions, tools: SourceTools) -> None:
        checked_repository(options.repository)
        super().__init__(definition, options, tools)

    def collections(self) -> tuple[Collection, ...]:
        folders = sorted({path.strip("/") for path in self.options.paths} or {""}, key=lambda folder: folder + "/")
        for folder, following in pairwise(folders):
            if not folder or following.startswith(folder + "/"):
                raise InvalidInputError(
                    f"paths: {following} is within {folder or 'the whole repository'}; give one of them"
                )
        options = self.options
        return tuple(Collection(options.repository, folder, options.source_uri) for folder in folders)
