"""Clients of Confluence's two APIs, v2 in the cloud and `/rest/api/content` in-house, behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from msgspec import field

from opx.errors import SourceRefusedError, SourceShapeError
from opx.formats.data.replies import Filled, Loose, Names, OddRecordError, Shape, odd, shaped, texts_of, utc
from opx_connectors.atlassian.access import Api, Keyed

CLOUD_LIMIT = 250
"""Pages per reply (Confluence Cloud REST API v2, "Get pages")."""

SERVER_LIMIT = 100
STEP_BACK = 10
"""Positions in-house that are read twice: as many pages may leave the listing between two requests."""

MAX_LEVELS = 20
MAX_TITLES = 20_000
MAX_COMMENTS = 1_000
"""Comments of a page that are ingested."""

_COMMENTS = 200
"""Comments per reply."""


class _Links(Shape, frozen=True):
    next: Loose[str] = ""
    webui: Loose[str] = ""


class _Results(Shape, frozen=True):
    results: list[Any]
    links: Loose[_Links] = field(default=_Links(), name="_links")


class _Storage(Shape, frozen=True):
    value: str


class _Body(Shape, frozen=True):
    storage: _Storage


class _Labels(Shape, frozen=True):
    results: Names = ()


class _Titled(Shape, frozen=True, rename="camel"):
    title: Loose[str] = ""
    parent_id: Loose[str] = ""


class _Space(Shape, frozen=True):
    id: Filled
    key: Filled


class _CloudVersion(Shape, frozen=True, rename="camel"):
    created_at: Filled


class _MaybeVersion(Shape, frozen=True, rename="camel"):
    created_at: Loose[str] = ""


class _CloudListed(Shape, frozen=True):
    id: Filled
    version: Loose[_MaybeVersion] = _MaybeVersion()


class _CloudPage(Shape, frozen=True, rename="camel"):
    title: Filled
    body: _Body
    version: _CloudVersion
    created_at: Filled
    space_id: Loose[str] = ""
    parent_id: Loose[str] = ""
    labels: Loose[_Labels] = _Labels()
    links: Loose[_Links] = field(default=_Links(), name="_links")


class _CloudComment(Shape, frozen=True, rename="camel"):
    body: _Body
    version: Loose[_MaybeVersion] = _MaybeVersion()
    created_at: Loose[str] = ""


class _CloudAttachment(Shape, frozen=True, rename="camel"):
    title: Filled
    download_link: Filled
    version: _CloudVersion
    file_size: Loose[int] = 0


class _Person(Shape, frozen=True, rename="camel"):
    display_name: Loose[str] = ""


class _ServerVersion(Shape, frozen=True):
    when: Filled
    by: Loose[_Person] = _Person()


class _ListedVersion(Shape, frozen=True):
    when: Loose[str] = ""


class _ServerListed(Shape, frozen=True):
    id: Filled
    version: Loose[_ListedVersion] = _ListedVersion()


class _Ancestor(Shape, frozen=True):
    id: Loose[str] = ""
    title: Loose[str] = ""


class _History(Shape, frozen=True, rename="camel"):
    created_date: Filled
    created_by: Loose[_Person] = _Person()


class _Metadata(Shape, frozen=True):
    labels: Loose[_Labels] = _Labels()


class _ServerPage(Shape, frozen=True):
    title: Filled
    body: _Body
    version: _ServerVersion
    history: _History
    space: Loose[Keyed] = Keyed()
    ancestors: tuple[Loose[_Ancestor], ...] = ()
    metadata: Loose[_Metadata] = _Metadata()
    links: Loose[_Links] = field(default=_Links(), name="_links")


class _ServerComment(Shape, frozen=True):
    body: _Body
    version: _ServerVersion


class _Extensions(Shape, frozen=True, rename="camel"):
    file_size: Loose[int] = 0


class _Download(Shape, frozen=True):
    download: Filled


class _ServerAttachment(Shape, frozen=True):
    title: Filled
    version: _ServerVersion
    links: _Download = field(name="_links")
    extensions: Loose[_Extensions] = _Extensions()


@dataclass(frozen=True, slots=True)
class ListedContent:
    """A page in a listing. `changed` is when its version was made (ISO 8601, UTC), "" if the listing doesn't say: then it is
    read, and refused alone if it is malformed."""

    id: str
    changed: str


@dataclass(frozen=True, slots=True)
class LoadedPage:
    """A page with its text in storage format. `ancestors` are titles, the topmost first."""

    id: str
    title: str
    space: str
    body: str
    changed: str
    created: str
    author: str
    address: str
    parent: str
    ancestors: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageComment:
    author: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """`download` is its path below the root of the site."""

    name: str
    size: int
    changed: str
    download: str


Listing = tuple[list[ListedContent], dict[str, Any]]
"""Pages, and the position of the next ones, {} at the end."""


def _time_of(text: str) -> str:
    """The time of a listed version; "" for none, and for a malformed one."""
    try:
        return utc(text, "version") if text else ""
    except OddRecordError:
        return ""


class Confluence(Protocol):
    """Client of a Confluence site. All methods raise as `WebClient.get`, and `SourceShapeError`; a malformed record
    raises `OddRecordError`."""

    def listing(self, position: Mapping[str, Any]) -> Listing: ...

    def load(self, page_id: str) -> LoadedPage | None:
        """Returns a page, None if it is gone."""

    def comments(self, page_id: str) -> Iterator[PageComment]:
        """Yields all comments, requested reply by reply as they are consumed."""

    def attachments(self, page_id: str) -> Iterator[Attachment]: ...


class CloudConfluence:
    """Client of `/wiki/api/v2` of a site."""

    def __init__(self, api: Api, spaces: Sequence[str]) -> None:
        self._api = api
        self._keys = spaces
        self._spaces: dict[str, str] = {}
        self._titles: dict[str, tuple[str, str]] = {}

    def listing(self, position: Mapping[str, Any]) -> Listing:
        query: dict[str, str | int] = {"space-id": ",".join(self._space_ids()), "status": "current", "sort": "id"}
        reply = self._get("pages", query | {"limit": CLOUD_LIMIT}, cursor=str(position.get("cursor", "")))
        found = []
        for record in reply.results:
            page = odd(_CloudListed, record)
            self._keep(page.id, record)
            found.append(ListedContent(page.id, _time_of(page.version.created_at)))
        following = _cursor_of(reply)
        if following and following == position.get("cursor"):
            raise SourceShapeError(f"{self._api.root}: the listing returns the same page repeatedly")
        return found, {"cursor": following} if following else {}

    def load(self, page_id: str) -> LoadedPage | None:
        reply = self._api.request(
            f"/wiki/api/v2/pages/{quote(page_id)}", {"body-format": "storage", "include-labels": "true"}
        )
        if reply.gone:
            return None
        page = odd(_CloudPage, reply.json())
        return LoadedPage(
            id=page_id,
            title=page.title,
            space=self._spaces.get(page.space_id, ""),
            body=page.body.storage.value,
            changed=utc(page.version.created_at, "version.createdAt"),
            created=utc(page.created_at, "createdAt"),
            author="",
            address=f"{self._api.root}/wiki{page.links.webui}",
            parent=page.parent_id,
            ancestors=self._ancestors(page.parent_id),
            labels=tuple(texts_of(page.labels.results)),
        )

    def comments(self, page_id: str) -> Iterator[PageComment]:
        query: dict[str, str | int] = {"body-format": "storage", "limit": _COMMENTS}
        for record in self._each(f"pages/{quote(page_id)}/footer-comments", query):
            found = odd(_CloudComment, record)
            yield PageComment(
                "", utc(found.version.created_at or found.created_at, "createdAt"), found.body.storage.value
            )

    def attachments(self, page_id: str) -> Iterator[Attachment]:
        for record in self._each(f"pages/{quote(page_id)}/attachments", {"limit": CLOUD_LIMIT}):
            found = odd(_CloudAttachment, record)
            changed = utc(found.version.created_at, "version.createdAt")
            yield Attachment(found.title, found.file_size, changed, "/wiki" + found.download_link)

    def _each(self, path: str, query: dict[str, str | int]) -> Iterator[Any]:
        """Yields the items of a listing, reply after reply."""
        cursor = ""
        while True:
            reply = self._get(path, query, cursor=cursor)
            yield from reply.results
            following = _cursor_of(reply)
            if not following or following == cursor:
                return
            cursor = following

    def _get(self, path: str, query: dict[str, str | int], *, cursor: str = "") -> _Results:
        sent = query | {"cursor": cursor} if cursor else query
        reply = self._api.get(f"/wiki/api/v2/{path}", "Confluence", sent).json()
        return shaped(_Results, reply, self._api.root)

    def _space_ids(self) -> list[str]:
        if not self._spaces:
            reply = self._get("spaces", {"keys": ",".join(self._keys), "limit": CLOUD_LIMIT})
            for record in reply.results:
                space = odd(_Space, record)
                self._spaces[space.id] = space.key
            missing = set(self._keys) - set(self._spaces.values())
            if missing:
                raise SourceRefusedError(
                    f"{self._api.root}: no space {', '.join(sorted(missing))}; check its key, and that the account may see it"
                )
        return list(self._spaces)

    def _ancestors(self, parent: str) -> tuple[str, ...]:
        """Titles of the ancestors as far as they are pages: a folder isn't found here and ends the path."""
        titles: list[str] = []
        while parent and len(titles) < MAX_LEVELS:
            if parent not in self._titles:
                self._titles[parent] = ("", "")
                for record in self._get("pages", {"id": parent, "limit": 1}).results:
                    self._keep(parent, record)
            title, parent = self._titles[parent]
            titles += [title] if title else []
        return tuple(reversed(titles))

    def _keep(self, page_id: str, record: Any) -> None:
        found = odd(_Titled, record)
        self._titles[page_id] = (found.title, found.parent_id)
        if len(self._titles) > MAX_TITLES:
            del self._titles[next(iter(self._titles))]


class ServerConfluence:
    """Client of `/rest/api/content` of an installation."""

    def __init__(self, api: Api, spaces: Sequence[str]) -> None:
        self._api = api
        self._keys = spaces

    def listing(self, position: Mapping[str, Any]) -> Listing:
        space, start = int(position.get("space", 0)), int(position.get("start", 0))
        query: dict[str, str | int] = {"spaceKey": self._keys[space], "type": "page", "status": "current"}
        reply = self._get("content", query | {"start": start, "limit": SERVER_LIMIT, "expand": "version"})
        pages = [odd(_ServerListed, each) for each in reply.results]
        found = [ListedContent(page.id, _time_of(page.version.when)) for page in pages]
        if found and reply.links.next:
            return found, {"space": space, "start": max(start + len(found) - STEP_BACK, start + 1)}
        return found, {"space": space + 1, "start": 0} if space + 1 < len(self._keys) else {}

    def load(self, page_id: str) -> LoadedPage | None:
        expand = "body.storage,version,ancestors,metadata.labels,space,history"
        reply = self._api.request(f"/rest/api/content/{quote(page_id)}", {"expand": expand})
        if reply.gone:
            return None
        page = odd(_ServerPage, reply.json())
        return LoadedPage(
            id=page_id,
            title=page.title,
            space=page.space.key,
            body=page.body.storage.value,
            changed=utc(page.version.when, "version.when"),
            created=utc(page.history.created_date, "history.createdDate"),
            author=page.history.created_by.display_name,
            address=self._api.root + page.links.webui,
            parent=page.ancestors[-1].id if page.ancestors else "",
            ancestors=tuple(each.title for each in page.ancestors if each.title),
            labels=tuple(texts_of(page.metadata.labels.results)),
        )

    def comments(self, page_id: str) -> Iterator[PageComment]:
        query: dict[str, str | int] = {"expand": "body.storage,version", "limit": _COMMENTS, "depth": "all"}
        for record in self._each(f"content/{quote(page_id)}/child/comment", query):
            found = odd(_ServerComment, record)
            when = utc(found.version.when, "version.when")
            yield PageComment(found.version.by.display_name, when, found.body.storage.value)

    def attachments(self, page_id: str) -> Iterator[Attachment]:
        query: dict[str, str | int] = {"expand": "version", "limit": SERVER_LIMIT}
        for record in self._each(f"content/{quote(page_id)}/child/attachment", query):
            found = odd(_ServerAttachment, record)
            changed = utc(found.version.when, "version.when")
            yield Attachment(found.title, found.extensions.file_size, changed, found.links.download)

    def _each(self, path: str, query: dict[str, str | int]) -> Iterator[Any]:
        """Yields the items of a listing, reply after reply."""
        start = 0
        while True:
            reply = self._get(path, query | {"start": start})
            yield from reply.results
            if not reply.results or not reply.links.next:
                return
            start += len(reply.results)

    def _get(self, path: str, query: dict[str, str | int]) -> _Results:
        return shaped(_Results, self._api.get(f"/rest/api/{path}", "Confluence", query).json(), self._api.root)


def _cursor_of(reply: _Results) -> str:
    """Cursor of the next page. Only the cursor is taken from the address, so that it can't lead elsewhere."""
    return parse_qs(urlsplit(reply.links.next).query).get("cursor", [""])[0]
