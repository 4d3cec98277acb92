"""Authenticates with Jira and Confluence, both in the cloud and in-house, and sends requests to them."""

from __future__ import annotations

import base64

from opx.errors import InvalidInputError, SourceRefusedError
from opx.formats.data.replies import Loose, Shape
from opx.ports.sources import Secrets, WebClient, WebReply


class Keyed(Shape, frozen=True):
    key: Loose[str] = ""


def authorization(user: str, token_secret: str, secrets: Secrets) -> dict[str, str]:
    """Returns the authorization header: an API token with its user's address (Cloud), or a personal access token alone
    (Data Center). Empty for public sites."""
    if not token_secret:
        return {}
    token = secrets.get(token_secret).strip()
    if not user:
        return {"authorization": f"Bearer {token}"}
    pair = base64.b64encode(f"{user}:{token}".encode()).decode("ascii")
    return {"authorization": f"Basic {pair}"}


def root_address(base_url: str, name: str) -> str:
    """Returns the base URL without a trailing slash. Raises `InvalidInputError` if it is not an HTTP address."""
    if not base_url.startswith(("https://", "http://")):
        raise InvalidInputError(f"{name}: base_url must begin with https://, as in https://example.atlassian.net")
    return base_url.rstrip("/")


def found(reply: WebReply, what: str) -> WebReply:
    """Returns the reply. Raises `SourceRefusedError` if there is nothing at its address."""
    if reply.gone:
        raise SourceRefusedError(
            f"{reply.url}: {what} was not found; check base_url, and that the account may see it", reply.status
        )
    return reply


class Api:
    """Authenticated requests to one product."""

    def __init__(self, web: WebClient, root: str, headers: dict[str, str]) -> None:
        self._web = web
        self._headers = {"accept": "application/json", **headers}
        self.root = root

    def get(self, path: str, what: str, query: dict[str, str | int] | None = None) -> WebReply:
        """Requests a resource that must exist. Raises as `WebClient.get`, and `SourceRefusedError` if it doesn't."""
        return found(self.request(path, query), what)

    def request(self, path: str, query: dict[str, str | int] | None = None, limit: int = 32 * 1024 * 1024) -> WebReply:
        """Requests a resource that may be gone. Raises as `WebClient.get`."""
        return self._web.get(self.root + path, query=query, headers=self._headers, limit=limit)

    def post(self, path: str, what: str, body: object) -> WebReply:
        return found(self._web.post(self.root + path, json=body, headers=self._headers), what)
