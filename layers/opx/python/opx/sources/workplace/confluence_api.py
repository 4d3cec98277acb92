"""The two interfaces of Confluence: v2 in the cloud, `/rest/api/content` in-house. Both as pages with what we read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import parse_qs, quote, urlsplit

from opx.errors import SourceRefusedError, SourceShapeError
from opx.sources.shapes import items, listed, maybe_text, member, moment, names, text
from opx.sources.workplace.atlassian import Api

CLOUD_LIMIT = 250
"""Pages a reply (Confluence Cloud REST API v2, "Get pages")."""

SERVER_LIMIT = 100
STEP_BACK = 10
"""Positions in-house that are read twice: as many pages may leave the listing between two requests."""

MAX_LEVELS = 20
MAX_TITLES = 20_000
MAX_COMMENTS = 1_000
"""Comments of a page that are taken in."""

_COMMENTS = 200
"""Comments a reply."""


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page that there is. `changed` is when its version was made (ISO 8601, UTC)."""

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
class Comment:
    author: str
    created: str
    body: str


@dataclass(frozen=True, slots=True)
class Attachment:
    """`download` is its path, below the root of the site."""

    name: str
    size: int
    changed: str
    download: str


Listing = tuple[list[ListedPage], dict[str, Any]]
"""Pages, and where the next ones are, {} for nowhere."""


class Confluence(Protocol):
    """A Confluence. All raise as `WebClient.get`, and `SourceShapeError`; an odd record raises `OddRecordError`."""

    def listing(self, position: Mapping[str, Any]) -> Listing: ...

    def load(self, page_id: str) -> LoadedPage | None:
        """A page, None if it is gone."""

    def comments(self, page_id: str) -> Iterator[Comment]:
        """All of them; to be asked for no more than is needed, as they come reply by reply."""

    def attachments(self, page_id: str) -> Iterator[Attachment]: ...


class CloudConfluence:
    """`/wiki/api/v2` of a site."""

    def __init__(self, api: Api, spaces: Sequence[str]) -> None:
        self._api = api
        self._keys = spaces
        self._spaces: dict[str, str] = {}
        self._titles: dict[str, tuple[str, str]] = {}

    def listing(self, position: Mapping[str, Any]) -> Listing:
        query: dict[str, str | int] = {"space-id": ",".join(self._space_ids()), "status": "current", "sort": "id"}
        reply = self._get("pages", query | {"limit": CLOUD_LIMIT}, cursor=str(position.get("cursor", "")))
        found = [self._listed(record) for record in listed(reply, "results", self._api.root)]
        following = _cursor_of(reply)
        if following and following == position.get("cursor"):
            raise SourceShapeError(f"{self._api.root}: the listing gives the same page again and again")
        return found, {"cursor": following} if following else {}

    def load(self, page_id: str) -> LoadedPage | None:
        reply = self._api.ask(
            f"/wiki/api/v2/pages/{quote(page_id)}", {"body-format": "storage", "include-labels": "true"}
        )
        if reply.gone:
            return None
        record = reply.json()
        return LoadedPage(
            id=page_id,
            title=text(record, "title"),
            space=self._spaces.get(maybe_text(record, "spaceId"), ""),
            body=_body(record),
            changed=moment(record, "version.createdAt"),
            created=moment(record, "createdAt"),
            author="",
            address=f"{self._api.root}/wiki{maybe_text(record, '_links.webui')}",
            parent=maybe_text(record, "parentId"),
            ancestors=self._ancestors(maybe_text(record, "parentId")),
            labels=tuple(names(record, "labels.results")),
        )

    def comments(self, page_id: str) -> Iterator[Comment]:
        query: dict[str, str | int] = {"body-format": "storage", "limit": _COMMENTS}
        for record in self._each(f"pages/{quote(page_id)}/footer-comments", query):
            when = "version.createdAt" if maybe_text(record, "version.createdAt") else "createdAt"
            yield Comment("", moment(record, when), _body(record))

    def attachments(self, page_id: str) -> Iterator[Attachment]:
        for record in self._each(f"pages/{quote(page_id)}/attachments", {"limit": CLOUD_LIMIT}):
            size = member(record, "fileSize")
            yield Attachment(
                text(record, "title"),
                size if isinstance(size, int) else 0,
                moment(record, "version.createdAt"),
                "/wiki" + text(record, "downloadLink"),
            )

    def _each(self, path: str, query: dict[str, str | int]) -> Iterator[Any]:
        """What is listed, reply after reply."""
        cursor = ""
        while True:
            reply = self._get(path, query, cursor=cursor)
            yield from listed(reply, "results", self._api.root)
            following = _cursor_of(reply)
            if not following or following == cursor:
                return
            cursor = following

    def _listed(self, record: Any) -> ListedPage:
        page_id = text(record, "id")
        self._keep(page_id, record)
        return ListedPage(page_id, moment(record, "version.createdAt"))

    def _get(self, path: str, query: dict[str, str | int], *, cursor: str = "") -> Any:
        sent = query | {"cursor": cursor} if cursor else query
        return self._api.get(f"/wiki/api/v2/{path}", "Confluence", sent).json()

    def _space_ids(self) -> list[str]:
        if not self._spaces:
            reply = self._get("spaces", {"keys": ",".join(self._keys), "limit": CLOUD_LIMIT})
            for record in listed(reply, "results", self._api.root):
                self._spaces[text(record, "id")] = text(record, "key")
            missing = set(self._keys) - set(self._spaces.values())
            if missing:
                raise SourceRefusedError(
                    f"{self._api.root}: no space {', '.join(sorted(missing))}; check its key, and that the account may see it"
                )
        return list(self._spaces)

    def _ancestors(self, parent: str) -> tuple[str, ...]:
        """Titles, as far as they are pages: a folder isn't found here and ends the path."""
        titles: list[str] = []
        while parent and len(titles) < MAX_LEVELS:
            if parent not in self._titles:
                self._titles[parent] = ("", "")
                for record in listed(self._get("pages", {"id": parent, "limit": 1}), "results", self._api.root):
                    self._keep(parent, record)
            title, parent = self._titles[parent]
            titles += [title] if title else []
        return tuple(reversed(titles))

    def _keep(self, page_id: str, record: Any) -> None:
        self._titles[page_id] = (maybe_text(record, "title"), maybe_text(record, "parentId"))
        if len(self._titles) > MAX_TITLES:
            del self._titles[next(iter(self._titles))]


class ServerConfluence:
    """`/rest/api/content` of an installation."""

    def __init__(self, api: Api, spaces: Sequence[str]) -> None:
        self._api = api
        self._keys = spaces

    def listing(self, position: Mapping[str, Any]) -> Listing:
        space, start = int(position.get("space", 0)), int(position.get("start", 0))
        query: dict[str, str | int] = {"spaceKey": self._keys[space], "type": "page", "status": "current"}
        reply = self._get("content", query | {"start": start, "limit": SERVER_LIMIT, "expand": "version"})
        found = [ListedPage(text(each, "id"), moment(each, "version.when")) for each in _results(reply, self._api)]
        if found and maybe_text(reply, "_links.next"):
            return found, {"space": space, "start": max(start + len(found) - STEP_BACK, start + 1)}
        return found, {"space": space + 1, "start": 0} if space + 1 < len(self._keys) else {}

    def load(self, page_id: str) -> LoadedPage | None:
        expand = "body.storage,version,ancestors,metadata.labels,space,history"
        reply = self._api.ask(f"/rest/api/content/{quote(page_id)}", {"expand": expand})
        if reply.gone:
            return None
        record = reply.json()
        ancestors = items(record, "ancestors")
        return LoadedPage(
            id=page_id,
            title=text(record, "title"),
            space=maybe_text(record, "space.key"),
            body=_body(record),
            changed=moment(record, "version.when"),
            created=moment(record, "history.createdDate"),
            author=maybe_text(record, "history.createdBy.displayName"),
            address=self._api.root + maybe_text(record, "_links.webui"),
            parent=maybe_text(ancestors[-1], "id") if ancestors else "",
            ancestors=tuple(names(record, "ancestors", "title")),
            labels=tuple(names(record, "metadata.labels.results")),
        )

    def comments(self, page_id: str) -> Iterator[Comment]:
        query: dict[str, str | int] = {"expand": "body.storage,version", "limit": _COMMENTS, "depth": "all"}
        for record in self._each(f"content/{quote(page_id)}/child/comment", query):
            author = maybe_text(record, "version.by.displayName")
            yield Comment(author, moment(record, "version.when"), _body(record))

    def attachments(self, page_id: str) -> Iterator[Attachment]:
        query: dict[str, str | int] = {"expand": "version", "limit": SERVER_LIMIT}
        for record in self._each(f"content/{quote(page_id)}/child/attachment", query):
            size = member(record, "extensions.fileSize")
            yield Attachment(
                text(record, "title"),
                size if isinstance(size, int) else 0,
                moment(record, "version.when"),
                text(record, "_links.download"),
            )

    def _each(self, path: str, query: dict[str, str | int]) -> Iterator[Any]:
        """What is listed, reply after reply."""
        start = 0
        while True:
            reply = self._get(path, query | {"start": start})
            records = _results(reply, self._api)
            yield from records
            if not records or not maybe_text(reply, "_links.next"):
                return
            start += len(records)

    def _get(self, path: str, query: dict[str, str | int]) -> Any:
        return self._api.get(f"/rest/api/{path}", "Confluence", query).json()


def _results(reply: Any, api: Api) -> list[Any]:
    return listed(reply, "results", api.root)


def _body(record: Any) -> str:
    """Text in storage format; a page may be empty, but says so."""
    value = member(record, "body.storage.value")
    if not isinstance(value, str):
        text(record, "body.storage.value")
    return str(value)


def _cursor_of(reply: Any) -> str:
    """The mark of the next page. Only the mark is taken from the address, so that it can't lead elsewhere."""
    return parse_qs(urlsplit(maybe_text(reply, "_links.next")).query).get("cursor", [""])[0]
