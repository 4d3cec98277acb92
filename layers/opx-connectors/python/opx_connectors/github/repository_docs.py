"""Pulls documents in folders of GitHub repositories at the head of a branch: of one repository, or Microsoft Learn's.

Microsoft Learn is read from the public repositories that the site is built from.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from itertools import chain, islice, pairwise
from pathlib import PurePosixPath
from typing import Annotated, Any, Generic, TypeVar
from urllib.parse import quote

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.ids import stable_hash
from opx.domain.record import about, replace
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceRefusedError, UnparsableDocumentError
from opx.formats.markup.plain import read_front_matter
from opx.formats.registry import is_known
from opx_connectors.forums.threads import described
from opx_connectors.github.api import (
    BASE_URL,
    LIMIT,
    RAW,
    GitHubApi,
    TreeFile,
    Trees,
    checked_repository,
    path_of,
    site_of,
)

FILES_A_PAGE = 50
UNCHANGED_A_PAGE = 1000


@dataclass(frozen=True, slots=True)
class RepositoryPath:
    """Position of a pull: its commits and trees by repository, collection `at`, behind the file `after`."""

    selection: str
    commits: Mapping[str, str]
    trees: Mapping[str, str]
    at: int = 0
    after: str = ""

    def cursor(self, at: int = 0, after: str = "") -> dict[str, Any]:
        return asdict(replace(self, at=at, after=after))


class Before:
    """Files of the last pull, compared with current files in the same order."""

    def __init__(self, files: Iterator[TreeFile]) -> None:
        self._files = files
        self._next = next(files, None)

    def has(self, file: TreeFile) -> bool:
        while self._next is not None and self._next.path < file.path:
            self._next = next(self._files, None)
        return self._next is not None and (self._next.path, self._next.sha) == (file.path, file.sha)


def _is_full(batch: Batch) -> bool:
    return len(batch.documents) + len(batch.refused) >= FILES_A_PAGE or len(batch.unchanged) >= UNCHANGED_A_PAGE


RAW_URL = "https://raw.githubusercontent.com"
_MARKDOWN = (".md", ".markdown", ".mdx")
_DOCUMENTS = (*_MARKDOWN, ".rst", ".adoc", ".txt", ".html", ".htm", ".pdf", ".docx")
_LARGE_FILE_POINTER = b"version https://git-lfs"


class DocsOptions(Options, frozen=True, kw_only=True):
    """Selection of files in repositories."""

    patterns: Annotated[
        Texts, about("Patterns of the files to read, such as *.md, in any case; * stands for slashes too.")
    ] = ()
    exclude: Annotated[Texts, about("Patterns of files to leave out.")] = ()
    branch: Annotated[str, about("The branch; left out, the default one.")] = ""
    max_bytes: Annotated[int, about("Larger files are reported, not read.")] = 4 * 1024 * 1024
    token_secret: Annotated[str, about("The name of the secret with the token.")] = ""
    base_url: Annotated[str, about("The address of the API, for an Enterprise server.")] = BASE_URL
    raw_url: Annotated[
        str,
        about(
            "The address of files, which has no request limit and no private files. If it is empty, "
            "they come from the API within its limit: for private repositories and Enterprise "
            "servers."
        ),
    ] = RAW_URL


@dataclass(frozen=True, slots=True)
class Collection:
    """A folder of a repository ("" for all of it). Keys of its documents begin with `key_prefix`."""

    repository: str
    folder: str
    source_uri: str = ""
    key_prefix: str = ""


O = TypeVar("O", bound=DocsOptions)  # noqa: E741 - options


class RepositoryDocs(Connector[O], Generic[O]):
    """Documents of folders, each pull at one commit per repository, in the order of collections and paths.

    Files that are equal in the tree of the last finished pull are listed and not fetched again: trees and contents are
    identified by their hashes. Each pull that finds a change lists all documents, so that deleted ones are noticed.
    """

    limit = LIMIT

    def __init__(self, definition: SourceDefinition, options: O, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        self._api = GitHubApi(tools, base_url=options.base_url, token_secret=options.token_secret)
        self._collections = self.collections()

    @abstractmethod
    def collections(self) -> tuple[Collection, ...]:
        """Returns the collections to read; none is within another one. Raises `InvalidInputError` if the options select
        none."""

    def probe(self) -> None:
        for collection in self._collections:
            trees = Trees(self._api, collection.repository)
            next(trees.files(trees.head(self.options.branch).tree, collection.folder), None)

    def pull(self, request: PullRequest) -> Iterator[Page]:
        position = self._position(request)
        known = request.left.get("trees", {}) if request.since and self._fits(request.left) else {}
        if not request.cursor and known == position.trees:
            yield Page(cursor=position.cursor())
            return
        for at in range(position.at, len(self._collections)):
            yield from self._pages(at, position, known, position.after if at == position.at else "")

    def _position(self, request: PullRequest) -> RepositoryPath:
        """Returns the position to resume at, with the commits that the pull began with; else the newest ones."""
        if self._fits(request.cursor):
            return RepositoryPath(**request.cursor)
        heads = {
            repository: Trees(self._api, repository).head(self.options.branch)
            for repository in dict.fromkeys(collection.repository for collection in self._collections)
        }
        commits = {repository: head.commit for repository, head in heads.items()}
        return RepositoryPath(self._selection, commits, {repository: head.tree for repository, head in heads.items()})

    def _fits(self, cursor: Mapping[str, Any]) -> bool:
        """True if a cursor is of these options: others choose other files, or another origin."""
        return cursor.get("selection") == self._selection

    @property
    def _selection(self) -> str:
        options = self.options
        chosen = (options.patterns, options.exclude, options.branch, options.base_url, options.max_bytes)
        return stable_hash("docs 1", repr(self._collections), repr(chosen))[:16]

    def _pages(self, at: int, position: RepositoryPath, known: Mapping[str, str], after: str) -> Iterator[Page]:
        collection, is_last = self._collections[at], at == len(self._collections) - 1
        trees = Trees(self._api, collection.repository)
        wanted = self._chosen(trees.files(position.trees[collection.repository], collection.folder))
        files = (file for file in wanted if file.path > after)
        before = self._before(trees, known.get(collection.repository, ""), collection.folder)
        batch = Batch()
        for file in files:
            if before.has(file):
                batch.unchanged.append(collection.key_prefix + file.path)
            else:
                self._fetch(file, collection, position.commits[collection.repository], batch)
            if _is_full(batch):
                yield batch.page(position.cursor(at, file.path))
        yield batch.page(position.cursor() if is_last else position.cursor(at + 1), complete=is_last)

    def _before(self, trees: Trees, tree: str, folder: str) -> Before:
        """Returns the files of the last finished pull; none if GitHub doesn't have that tree any more."""
        files = self._chosen(trees.files(tree, folder)) if tree else iter(())
        try:
            first = list(islice(files, 1))
        except SourceRefusedError:
            return Before(iter(()))
        return Before(chain(first, files))

    def _chosen(self, files: Iterator[TreeFile]) -> Iterator[TreeFile]:
        return (file for file in files if self._is_chosen(file.path))

    def _is_chosen(self, path: str) -> bool:
        suffix = PurePosixPath(path).suffix.lower()
        options = self.options
        lower = path.lower()
        if suffix not in _DOCUMENTS and not (options.patterns and is_known(suffix)):
            return False
        if options.patterns and not any(fnmatchcase(lower, pattern.lower()) for pattern in options.patterns):
            return False
        return not any(fnmatchcase(lower, pattern.lower()) for pattern in options.exclude)

    # -- a file

    def _fetch(self, file: TreeFile, collection: Collection, commit: str, batch: Batch) -> None:
        key = collection.key_prefix + file.path
        if file.size > self.options.max_bytes:
            batch.refuse(key, f"has {file.size:,} bytes; the option max_bytes allows {self.options.max_bytes:,}")
            return
        data = self._download(collection.repository, commit, file.path)
        if data.startswith(_LARGE_FILE_POINTER):
            batch.refuse(key, "is in Git's large file storage, which is not read")
        elif not data.strip():
            batch.refuse(key, "is empty")
        else:
            batch.add(self._document(key, file.path, collection, data))

    def _download(self, repository: str, commit: str, path: str) -> bytes:
        limit = f"{path_of('repos', repository, 'contents', path)}"
        if not self.options.raw_url:
            reply = self._api.get(limit, query={"ref": commit}, accept=RAW)
        else:
            reply = self.web.get(self.options.raw_url.rstrip("/") + path_of(repository, commit, path))
        if reply.gone:
            hint = "; for a private repository set raw_url to an empty string" if self.options.raw_url else ""
            raise SourceRefusedError(f"{repository}: {path} is listed and can't be fetched{hint}", reply.status)
        return reply.body

    def _document(self, key: str, path: str, collection: Collection, data: bytes) -> SourceDocument:
        suffix = PurePosixPath(path).suffix.lower()
        address = self._address(path, collection)
        if suffix not in _MARKDOWN and is_known(suffix):
            return SourceDocument(key, data, described(title="", address=address))
        text = data.decode("utf-8", "replace").replace("\0", "")
        page = read_page(text, path)
        tags = [*page.tags, *([page.topic] if page.topic else [])]
        facts = described(title=page.title, address=address, tags=tags, updated=page.updated, author=page.author)
        body = page.text
        if page.description and page.description not in body:
            body = f"{page.description}\n\n{body}"
        return SourceDocument(key, body, facts)

    def _address(self, path: str, collection: Collection) -> str:
        if not collection.source_uri:
            branch = self.options.branch or "HEAD"
            return f"{site_of(self.options.base_url)}{path_of(collection.repository, 'blob', branch, path)}"
        page = path.removeprefix(f"{collection.folder}/" if collection.folder else "")
        page = page.removesuffix(PurePosixPath(page).suffix)
        return collection.source_uri.replace("{page}", quote(page)).replace("{path}", quote(path))


class GitHubDocsOptions(DocsOptions, frozen=True, kw_only=True):
    """Selection of files in one repository."""

    repository: Annotated[str, about("The repository, as owner/name.")]
    paths: Annotated[Texts, about("Folders in it; none means all.")] = ()
    source_uri: Annotated[
        str,
        about(
            "The address of a document, where {page} stands for its path below the folder without "
            "extension, and {path} for its path in the repository; left out, GitHub's page."
        ),
    ] = ""


class GitHubDocs(RepositoryDocs[GitHubDocsOptions]):
    """Documents in folders of one repository."""

    about = "documents in a GitHub repository"

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
"""Collection of pages by topic."""


class MicrosoftLearnOptions(DocsOptions, frozen=True, kw_only=True):
    """Selection of pages. Included fragments and tables of contents are not documents of their own."""

    topics: Annotated[
        Texts, about("Topics, such as windows-server/troubleshoot; the reply to an unknown one lists all.")
    ] = ("windows-server/troubleshoot", "azure/monitoring")
    patterns: Annotated[Texts, about("Patterns of the files to read.")] = ("*.md",)
    exclude: Annotated[Texts, about("Patterns of files to leave out.")] = (
        "*/includes/*",
        "*/toc.md",
        "*/media/*",
    )


class MicrosoftLearn(RepositoryDocs[MicrosoftLearnOptions]):
    """Pages of Microsoft Learn, by topic."""

    about = "troubleshooting and reference of Microsoft Learn, by topics"

    def collections(self) -> tuple[Collection, ...]:
        names = sorted({topic.strip("/ ") for topic in self.options.topics})
        unknown = [name for name in names if name not in TOPICS]
        if unknown or not names:
            raise InvalidInputError(
                f"source {self.name}: unknown topic {unknown[0] if unknown else ''!r}; allowed: {', '.join(TOPICS)}"
            )
        return tuple(TOPICS[name] for name in names)


# -- Markdown of documentation pages


_FENCE = re.compile(r"[ \t]*(?:>[ \t]?)*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})([^\n]*)\Z")
_ALERT = re.compile(r"\A([ \t]{0,20}>[ \t]{0,20})\[!(NOTE|TIP|IMPORTANT|CAUTION|WARNING)\]\s*", re.IGNORECASE)
_DIV = re.compile(r"\s*>?\s*\[!div\b[^\]]*\]\s*\Z", re.IGNORECASE)
_VIDEO = re.compile(r"\[!VIDEO\s+(\S+)\s*\]", re.IGNORECASE)
_INCLUDE = re.compile(r"\[!INCLUDE[ \t]{0,9}\[([^\]\[]{0,300})\]\([^)(\s]{0,500}\)\]", re.IGNORECASE)
_IMAGE = re.compile(r":::\s*image\b([^\n]*?):::")
_CODE = re.compile(r":::\s*code\b([^\n]*?):::")
_OTHER_EXTENSION = re.compile(r"\s*:::\s*[a-z][^\n]*\Z")
_ATTRIBUTE = re.compile(r"([a-z-]+)=\"([^\"]*)\"")
_TAB = re.compile(r"\A {0,3}#{1,6}[ \t]{1,9}\[([^\]\[]+)\]\(#tab/[^)]*\)\s*\Z")
_XREF = re.compile(r"<xref:([^>?]+)[^>]*>")
_ANCHOR = re.compile(r"<a\s+(?:name|id)=\"[^\"]*\"\s*/?>(?:</a>)?", re.IGNORECASE)
_SHORTCODE = re.compile(r"\{\{[<%][^{}]*[%>]\}\}")
_LINK = re.compile(r"(!?)\[([^\[\]]*)\]\(\s*<?([^()\s<>]*)>?(?:\s+\"[^\"]*\")?\s*\)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_AMERICAN_DATE = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})\Z")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_LONGEST = 20_000
"""Characters of the longest line that is cleaned; longer ones are not prose."""
_LENIENT = re.compile(r"(title|description|ms\.date|ms\.topic|date|author):[ \t]*(.*?)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class DocsPage:
    """A page of documentation: its text without front matter, and the fields of the front matter."""

    text: str
    title: str = ""
    description: str = ""
    updated: str = ""
    author: str = ""
    topic: str = ""
    tags: tuple[str, ...] = field(default_factory=tuple)


def read_page(text: str, name: str) -> DocsPage:
    """Parses a Markdown file of a documentation repository. Of unreadable front matter, only its simple fields are used.

    `updated` is a date (ISO 8601), from `ms.date` (month first) or `date`; "" without either.
    """
    lines = text.replace("\r\n", "\n").removeprefix("\ufeff").split("\n")
    facts, rest = _front_matter(lines, name)
    return DocsPage(
        text="\n".join(_cleaned(rest)).strip("\n") + "\n",
        title=_text(facts.get("title")),
        description=_text(facts.get("description")),
        updated=_date(_text(facts.get("ms.date")) or _text(facts.get("date"))),
        author=_text(facts.get("author")),
        topic=_text(facts.get("ms.topic")),
        tags=tuple(_text(tag) for tag in _listed(facts.get("tags"))),
    )


def _front_matter(lines: list[str], name: str) -> tuple[dict[str, Any], list[str]]:
    source = iter([line + "\n" for line in lines])
    try:
        found, read = read_front_matter(source, name)
    except UnparsableDocumentError:
        return _lenient_front_matter(lines)
    if found is None:
        return {}, lines
    return found, [line.rstrip("\n") for line in (*read, *source)]


def _lenient_front_matter(lines: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Reads the lines `key: value` of front matter that isn't YAML; a site's builder may accept what we don't."""
    end = next((at for at, line in enumerate(lines) if at and line.rstrip() in ("---", "...")), 0)
    facts = {}
    for line in lines[1:end]:
        match = _LENIENT.match(line)
        if match:
            facts[match[1]] = match[2].strip("\"'")
    return facts, lines[end + 1 :] if end else lines


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else ([value] if isinstance(value, str) else [])


def _date(text: str) -> str:
    american = _AMERICAN_DATE.match(text)
    if american:
        month, day, year = int(american[1]), int(american[2]), american[3]
        return f"{year}-{month:02}-{day:02}" if 1 <= month <= 12 and 1 <= day <= 28 + 3 * (month != 2) else ""
    found = _DATE.match(text)
    return found[0] if found else ""


def _cleaned(lines: list[str]) -> Iterator[str]:
    fence = ""
    hidden = False
    for line in lines:
        found = _FENCE.match(line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            yield line
        elif found and not hidden and not (found[1][0] == "`" and "`" in found[2]):
            fence = found[1]
            yield line
        else:
            plain = not hidden and "<!--" not in line
            shown, hidden = _outside_comments(line, hidden)
            cleaned = _cleaned_line(shown) if plain or shown.strip() else None
            if cleaned is not None:
                yield cleaned


def _outside_comments(line: str, hidden: bool) -> tuple[str, bool]:
    """Returns the line without HTML comments, and True if a comment is open at its end."""
    shown = ""
    while line:
        if hidden:
            _, found, line = line.partition("-->")
            hidden = not found
        else:
            before, found, line = line.partition("<!--")
            shown += before
            hidden = bool(found)
    return shown, hidden


def _cleaned_line(line: str) -> str | None:
    """Cleans a line outside of code; None if nothing is left of it."""
    if len(line) > _LONGEST or not line.strip():
        return line
    cleaned: str = line
    for pattern, replacement in _REPLACED:
        cleaned = pattern.sub(replacement, cleaned)
    if _DIV.match(cleaned) or _OTHER_EXTENSION.match(cleaned):
        return None
    cleaned = cleaned.replace("&nbsp;", " ")
    return cleaned if cleaned.strip() else None


def _attributes(match: re.Match[str]) -> dict[str, str]:
    return dict(_ATTRIBUTE.findall(match[1]))


def _image(match: re.Match[str]) -> str:
    shown = _attributes(match).get("alt-text", "").strip()
    return f"(Image: {shown})" if shown else ""


def _code(match: re.Match[str]) -> str:
    source = _attributes(match).get("source", "").strip()
    return f"(Code: {source})" if source else ""


def _included(match: re.Match[str]) -> str:
    return f"(Included text: {match[1].strip()})" if match[1].strip() else ""


def _link(match: re.Match[str]) -> str:
    """Replaces links within the site by their text, as they lead nowhere from here, and images by their alternative text."""
    image, text, address = match[1], match[2], match[3]
    if image:
        return f"(Image: {text.strip()})" if text.strip() else ""
    return match[0] if _ABSOLUTE.match(address) else text


_REPLACED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (_ALERT, lambda match: f"{match[1]}**{match[2].capitalize()}:** "),
    (_TAB, r"**\1**"),
    (_INCLUDE, _included),
    (_VIDEO, r"Video: \1"),
    (_IMAGE, _image),
    (_CODE, _code),
    (_SHORTCODE, ""),
    (_XREF, r"`\1`"),
    (_ANCHOR, ""),
    (_LINK, _link),
)
