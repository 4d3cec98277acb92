"""A Jira on 127.0.0.1, whose issues a test sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from opx.connectors.connector import Connector
from tests.doubles.http_double import Request
from tests.doubles.misbehaving_site import Answer, MisbehavingSite
from tests.support.workplace_support import a_connector

CLOUD, SERVER = "/rest/api/3/search/jql", "/rest/api/2/search"


def an_issue(number: int, **fields: Any) -> dict[str, Any]:
    """Issues were changed a second after each other."""
    known = {
        "summary": f"Problem {number}",
        "description": None,
        "created": "2024-01-01T10:00:00.000+0000",
        "updated": f"2024-01-02T15:{number // 60:02}:{number % 60:02}.500+0000",
        "status": {"name": "Open"},
    }
    return {"id": str(number), "key": f"OPS-{number}", "fields": {**known, **fields}}


def a_text(*words: str) -> dict[str, Any]:
    paragraphs = [{"type": "paragraph", "content": [{"type": "text", "text": each}]} for each in words]
    return {"type": "doc", "version": 1, "content": paragraphs}


@dataclass
class Jira:
    """A Jira of either kind. `between` happens before each search but the first."""

    site: MisbehavingSite
    kind: str = "Cloud"
    issues: list[dict[str, Any]] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    between: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.site.on("/rest/api/2/serverInfo", lambda request: Answer(200, {"deploymentType": self.kind}))
        self.site.on(CLOUD, self.cloud)
        self.site.on(SERVER, self.server)

    def found(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        since = int(body["jql"].partition("updated >= ")[2].partition(" ")[0] or 0) / 1000
        changed = [issue for issue in self.issues if not since or seconds(issue) >= int(since)]
        return sorted(changed, key=lambda issue: (issue["fields"]["updated"], issue["key"]))

    def body_of(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = request.json()
        if self.bodies and self.between:
            self.between.pop(0)()
        self.bodies.append(body)
        return body

    def cloud(self, request: Request) -> Answer:
        body = self.body_of(request)
        start, size = int(body.get("nextPageToken", "token-0").removeprefix("token-")), body["maxResults"]
        found = self.found(body)
        last = start + size >= len(found)
        page = {"issues": found[start : start + size], "isLast": last}
        return Answer(200, page if last else {**page, "nextPageToken": f"token-{start + size}"})

    def server(self, request: Request) -> Answer:
        body = self.body_of(request)
        start, size, found = body["startAt"], body["maxResults"], self.found(body)
        page = {"startAt": start, "maxResults": size, "total": len(found), "issues": found[start : start + size]}
        return Answer(200, page)

    def connector(self, **options: Any) -> Connector[Any]:
        known = options.pop("known", ())
        return a_connector(
            "jira", self.site, known=known, **{"base_url": self.site.url(), "projects": ["OPS"], **options}
        )


def seconds(issue: dict[str, Any]) -> float:
    return datetime.fromisoformat(issue["fields"]["updated"]).timestamp()
