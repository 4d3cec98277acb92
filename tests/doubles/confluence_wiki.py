"""A Confluence on 127.0.0.1, whose pages a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from opx.connectors.connector import Connector
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.workplace_support import a_connector


@dataclass
class Written:
    """A page as its author knows it."""

    id: str
    title: str = "A page"
    body: str = "<p>Text</p>"
    parent: str = ""
    changed: str = "2024-01-02T10:00:00.000Z"
    labels: tuple[str, ...] = ()
    comments: tuple[str, ...] = ()
    files: dict[str, bytes] = field(default_factory=dict)
    file_size: int | None = None


@dataclass
class Wiki:
    """A Confluence of either kind with the space OPS (id 77)."""

    site: MisbehavingSite
    kind: str
    pages: dict[str, Written] = field(default_factory=dict)
    limit: int = 1000

    def add(self, *pages: Written) -> None:
        self.pages.update({page.id: page for page in pages})

    def connector(self, **options: Any) -> Connector[Any]:
        known = options.pop("known", ())
        given = {"base_url": self.site.url(), "spaces": ["OPS"], "deployment": self.kind, **options}
        return a_connector("confluence", self.site, known=known, **given)

    def start(self) -> None:
        if self.kind == "cloud":
            self.site.page("/wiki/api/v2/spaces", {"results": [{"id": "77", "key": "OPS"}]})
            self.site.on("/wiki/api/v2/pages", self._cloud_listing)
        else:
            self.site.on("/rest/api/content", self._server_listing)
        for page in self.pages.values():
            self._serve(page)

    def _serve(self, page: Written) -> None:
        cloud = self.kind == "cloud"
        base = f"/wiki/api/v2/pages/{page.id}" if cloud else f"/rest/api/content/{page.id}"
        self.site.page(base, self._cloud(page, body=True) if cloud else self._server(page, body=True))
        comments = [
            {
                "id": str(number),
                "version": {"createdAt": page.changed, "when": page.changed, "by": {"displayName": "Ann"}},
            }
            | {"body": {"storage": {"value": text}}}
            for number, text in enumerate(page.comments)
        ]
        self.site.page(base + ("/footer-comments" if cloud else "/child/comment"), {"results": comments})
        files = [self._file(page, name, data) for name, data in page.files.items()]
        self.site.page(base + ("/attachments" if cloud else "/child/attachment"), {"results": files})

    def _file(self, page: Written, name: str, data: bytes) -> dict[str, Any]:
        path = f"/download/attachments/{page.id}/{name}"
        self.site.page(("/wiki" if self.kind == "cloud" else "") + path, data)
        size = len(data) if page.file_size is None else page.file_size
        version = {"createdAt": page.changed, "when": page.changed}
        facts = {"title": name, "fileSize": size, "extensions": {"fileSize": size}, "version": version}
        return {**facts, "downloadLink": path, "_links": {"download": path}}

    def _cloud(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        facts = {
            "id": page.id,
            "title": page.title,
            "spaceId": "77",
            "parentId": page.parent or None,
            "createdAt": "2023-01-01T00:00:00Z",
            "version": {"createdAt": page.changed},
            "_links": {"webui": f"/spaces/OPS/pages/{page.id}"},
        }
        more = {
            "body": {"storage": {"value": page.body}},
            "labels": {"results": [{"name": each} for each in page.labels]},
        }
        return {**facts, **more} if body else facts

    def _server(self, page: Written, *, body: bool = False) -> dict[str, Any]:
        above: list[dict[str, str]] = []
        at = page.parent
        while at:
            above.insert(0, {"id": at, "title": self.pages[at].title})
            at = self.pages[at].parent
        facts = {"id": page.id, "title": page.title, "version": {"when": page.changed}}
        more = {
            "body": {"storage": {"value": page.body}},
            "space": {"key": "OPS"},
            "ancestors": above,
            "history": {"createdDate": "2023-01-01T00:00:00Z", "createdBy": {"displayName": "Ann"}},
            "metadata": {"labels": {"results": [{"name": each} for each in page.labels]}},
            "_links": {"webui": f"/display/OPS/{page.id}"},
        }
        return {**facts, **more} if body else facts

    def _cloud_listing(self, request: Request) -> Answer:
        parameters = request.parameters
        if "id" in parameters:
            found = [page for page in self.pages.values() if page.id in parameters["id"].split(",")]
            return Answer(200, {"results": [self._cloud(page) for page in found], "_links": {}})
        assert (parameters["space-id"], parameters["status"]) == ("77", "current")
        start, size = int(parameters.get("cursor", "c0").removeprefix("c")), min(int(parameters["limit"]), self.limit)
        found = sorted(self.pages.values(), key=lambda page: int(page.id))
        following = (
            {"next": f"/wiki/api/v2/pages?cursor=c{start + size}&limit={size}"} if start + size < len(found) else {}
        )
        return Answer(
            200, {"results": [self._cloud(page) for page in found[start : start + size]], "_links": following}
        )

    def _server_listing(self, request: Request) -> Answer:
        parameters = request.parameters
        assert (parameters["spaceKey"], parameters["type"], parameters["status"]) == ("OPS", "page", "current")
        start, size = int(parameters["start"]), min(int(parameters["limit"]), self.limit)
        found = sorted(self.pages.values(), key=lambda page: int(page.id))
        links = {"next": "/rest/api/content?start=x"} if start + size < len(found) else {}
        return Answer(200, {"results": [self._server(page) for page in found[start : start + size]], "_links": links})
