"""Pulls pages of Confluence, in the cloud and in-house.

Every pull lists all pages of its spaces without their text, so that moved, archived, deleted and restored pages are
noticed. Changed pages, and those that weren't ingested before, are read one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

from opx.connectors.connector import Batch, Connector, Options, SourceTools, Texts
from opx.domain.record import about
from opx.domain.sources import Page, PullRequest, SourceDefinition, SourceDocument
from opx.errors import InvalidInputError, SourceShapeError
from opx.formats.data.replies import OddRecordError, since_of
from opx.formats.markdown import block, facts, joined, nested, one_line, reference, relation
from opx.formats.metadata import fitting
from opx.formats.registry import is_known
from opx_connectors.atlassian.access import Api, authorization, root_address
from opx_connectors.atlassian.confluence_api import (
    MAX_COMMENTS,
    Attachment,
    CloudConfluence,
    Confluence,
    ListedContent,
    LoadedPage,
    PageComment,
    ServerConfluence,
)
from opx_connectors.atlassian.storage_format import storage_markdown

STEP_PAGES = 25
"""Pages that are read before a page of documents is stored."""

_CLOUD_HOSTS = (".atlassian.net", "api.atlassian.com")


class ConfluenceOptions(Options, frozen=True):
    """Options of Confluence."""

    base_url: Annotated[str, about("The address of Confluence, such as https://example.atlassian.net/wiki.")]
    spaces: Annotated[Texts, about("Keys of the spaces whose pages are read.")]
    deployment: Annotated[str, about("cloud or server; left out, it follows from the host.")] = ""
    user: Annotated[str, about("The user of the token; left out, the token is a personal access token.")] = ""
    token_secret: Annotated[str, about("The name of the secret with the token.")] = ""
    comments: Annotated[
        bool,
        about("Read comments with their page: one that is added later is noticed once the page changes."),
    ] = False
    attachments: Annotated[
        bool, about("Ingest attachments of supported formats: one request for each page in each pull.")
    ] = False
    max_attachment_bytes: Annotated[int, about("Larger attachments are reported, not read.")] = 20 * 1024 * 1024


class ConfluenceConnector(Connector[ConfluenceOptions]):
    """Pulls one document per page and one per attachment."""

    about = "pages of Confluence spaces, Cloud and Data Center"

    def __init__(self, definition: SourceDefinition, options: ConfluenceOptions, tools: SourceTools) -> None:
        super().__init__(definition, options, tools)
        root = root_address(options.base_url, self.name)
        if options.deployment not in ("", "cloud", "server"):
            raise InvalidInputError(f"{self.name}: deployment must be cloud or server, not {options.deployment!r}")
        if not options.spaces:
            raise InvalidInputError(f"{self.name}: give the keys of one or more spaces")
        host = urlsplit(root).hostname or ""
        self._cloud = options.deployment == "cloud" or (not options.deployment and host.endswith(_CLOUD_HOSTS))
        self._root = root.removesuffix("/wiki") if self._cloud else root

    def probe(self) -> None:
        self._listing(self._login()[1], {})

    def pull(self, request: PullRequest) -> Iterator[Page]:
        api, confluence = self._login()
        since = since_of(request.since)
        position = dict(request.cursor)
        before: set[str] = set()  # ids of the previous listing, some of which come twice
        while True:
            listed, following = self._listing(confluence, position)
            found = [each for each in listed if each.id not in before]
            before = {each.id for each in listed}
            batch, seen = Batch(), max((each.changed for each in found), default="")
            known = set(self.known([each.id for each in found])) if since else set()
            for each in found:
                if each.id in known and "" < each.changed < since:
                    batch.unchanged.append(each.id)
                else:
                    self._read_page(confluence, each, batch)
                if self.options.attachments:
                    self._read_attachments(api, confluence, each, since, batch)
                if len(batch.documents) >= STEP_PAGES:
                    yield batch.page(position, seen_until=seen)
            yield batch.page(following, seen_until=seen, complete=not following)
            if not following:
                return
            position = following

    def _login(self) -> tuple[Api, Confluence]:
        login = authorization(self.options.user, self.options.token_secret, self.secrets)
        api = Api(self.web, self._root, login)
        kind = CloudConfluence if self._cloud else ServerConfluence
        return api, kind(api, self.options.spaces)

    def _listing(self, confluence: Confluence, position: dict[str, Any]) -> tuple[list[ListedContent], dict[str, Any]]:
        try:
            return confluence.listing(position)
        except OddRecordError as exc:
            raise SourceShapeError(f"{self.name}: in the listing of pages: {exc}") from exc

    def _read_page(self, confluence: Confluence, listed: ListedContent, batch: Batch) -> None:
        with batch.refusing(listed.id):
            page = confluence.load(listed.id)
            if page is not None:
                given = confluence.comments(page.id) if self.options.comments else ()
                batch.add(page_document(page, list(islice(given, MAX_COMMENTS + 1))))

    # -- attachments

    def _read_attachments(
        self, api: Api, confluence: Confluence, page: ListedContent, since: str, batch: Batch
    ) -> None:
        try:
            listed = confluence.attachments(page.id)
            found = [each for each in listed if is_known(PurePosixPath(each.name).suffix)]
        except OddRecordError as exc:
            raise SourceShapeError(f"{self.name}: in the attachments of page {page.id}: {exc}") from exc
        keys = {each: f"{page.id}/attachments/{each.name}" for each in found}
        known = set(self.known(list(keys.values()))) if since else set()
        most = self.options.max_attachment_bytes
        for attachment, key in keys.items():
            if key in known and attachment.changed < since:
                batch.unchanged.append(key)
            elif attachment.size > most:
                batch.refuse(key, f"larger than {most:,} bytes (max_attachment_bytes)")
            else:
                batch.add(*self._attachment(api, page, attachment, key))

    def _attachment(self, api: Api, page: ListedContent, attachment: Attachment, key: str) -> Sequence[SourceDocument]:
        reply = api.request(attachment.download, limit=self.options.max_attachment_bytes)
        if reply.gone or not reply.body:
            return ()
        metadata = {
            "title": PurePosixPath(attachment.name).stem,
            "source_uri": f"{self._root}{attachment.download}".partition("?")[0],
            "last_updated": attachment.changed,
            "tags": ["attachment", f"confluence page {page.id}"],
        }
        return (SourceDocument(key, reply.body, metadata),)


def page_document(page: LoadedPage, comments: Sequence[PageComment]) -> SourceDocument:
    """Converts a page to a document: its path in the tree, its text, its first `MAX_COMMENTS` comments. Raises
    `OddRecordError`."""
    title = one_line(page.title)
    read = storage_markdown(page.body)
    own = reference("confluence", page.id)
    content = joined(
        [
            f"# {title}",
            facts(
                [("Space", page.space), ("Path", " > ".join([*page.ancestors, page.title])), ("Author", page.author)]
            ),
            nested(read.markdown, 1),
            *(["## Comments"] if comments else []),
            *(_comment(each) for each in comments[:MAX_COMMENTS]),
            *(["Further comments are left out."] if len(comments) > MAX_COMMENTS else []),
            block(
                [
                    relation(own, "PARENT", reference("confluence", page.parent)),
                    *(relation(own, "REFERENCES", reference("jira", key)) for key in read.issues),
                ]
            ),
        ]
    )
    metadata: dict[str, Any] = {
        "title": title,
        "source_uri": page.address,
        "tags": fitting([*page.labels, page.space, *page.ancestors]),
        "created_at": page.created,
        "last_updated": page.changed,
        "author": page.author,
    }
    return SourceDocument(page.id, content, {name: value for name, value in metadata.items() if value})


def _comment(comment: PageComment) -> str:
    by = f" of {one_line(comment.author)}" if comment.author else ""
    return f"### Comment{by}, {comment.created[:10]}\n\n{nested(storage_markdown(comment.body).markdown, 3)}"
