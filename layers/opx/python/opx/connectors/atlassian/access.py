"""What Jira and Confluence have in common: how they are logged in to, and that they run in the cloud or in-house."""

from __future__ import annotations

import base64

from opx.errors import InvalidInputError, SourceRefusedError
from opx.formats.data.replies import Loose, Shape
from opx.ports.sources import Secrets, WebClient, WebReply


class Keyed(Shape, frozen=True):
    key: Loose[str] = ""


def authorization(user: str, token_secret: str, secrets: Secrets) -> dict[str, str]:
    """The header that logs in: an API token with its user's address (Cloud), or a personal access token alone (Data
    Center). None for what is public."""
    if not token_secret:
        return {}
    token = secrets.get(token_secret).strip()
    if not user:
        return {"authorization": f"Bearer {token}"}
    pair = base64.b64encode(f"{user}:{token}".encode()).decode("ascii")
    return {"authorization": f"Basic {pair}"}


def root_address(base_url: str, name: str) -> str:
    """The address without a slash at its end. Raises `InvalidInputError` for what is none."""
    if not base_url.startswith(("https://", "http://")):
        raise InvalidInputError(f"{name}: base_url must begin with https://, as in https://example.atlassian.net")
    return base_url.rstrip("/")


def found(reply: WebReply, what: str) -> WebReply:
    """The reply. Raises `SourceRefusedError` if there is nothing at its address."""
    if reply.gone:
        raise SourceRefusedError(
            f"{reply.url}: {what} isn't there; check base_url, and that the account may see it", reply.status
        )
    return reply


class Api:
    """Requests to one product, logged in."""

    def __init__(self, web: WebClient, root: str, headers: dict[str, str]) -> None:
        self._web = web
        self._headers = {"accept": "application/json", **headers}
        self.root = root

    def get(self, path: str, what: str, query: dict[str, str | int] | None = None) -> WebReply:
        """What is at a path, which has to be there. Raises as `WebClient.get`, and `SourceRefusedError`."""
        return found(self.ask(path, query), what)

    def ask(self, path: str, query: dict[str, str | int] | None = None, limit: int = 32 * 1024 * 1024) -> WebReply:
        """The same for what may be gone."""
        return self._web.get(self.root + path, query=query, headers=self._headers, limit=limit)

    def post(self, path: str, what: str, body: object) -> WebReply:
        return found(self._web.post(self.root + path, json=body, headers=self._headers), what)
