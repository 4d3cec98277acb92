"""The console as it is deployed, on this machine: an OIDC issuer that signs real tokens, and one address for the page's files
and the API, whose functions are the deployed ones.

What API Gateway and CloudFront do is done here: tokens are checked, and claims are handed over as text; files have the
headers of the distribution.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

from lambdas.manage_knowledge.handler import make_handler as make_manage
from lambdas.retrieve_knowledge.handler import make_handler as make_retrieve
from opx.operations.registry import Function
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve.console import PREFIX, ConsoleFiles, policy
from opx_serve.uploads import PREFIX as UPLOADS
from opx_serve.uploads import UploadGrant, serve_uploads
from tests.doubles.api_gateway import event_of, route_of, routes
from tests.doubles.http_double import DoubleHandler, DoubleServer, Request
from tests.support.fakes import FakeContext

CLIENT, LIFE = "console-page", 900
_FREE = (("access-control-allow-origin", "*"),)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


def json_reply(body: object, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Reply:
    return Reply(status, json.dumps(body).encode(), (("content-type", "application/json"), *headers))


class Site:
    """An HTTP server on the loopback, running inside `with`. Subclasses implement `answer`."""

    def __init__(self) -> None:
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.site = self

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def answer(self, request: Request) -> Reply:
        raise NotImplementedError

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class _Server(DoubleServer):
    site: Site


class _Handler(DoubleHandler):
    server: _Server

    def do_GET(self) -> None:  # noqa: N802
        reply = self.server.site.answer(self.received())
        self.send_response(reply.status)
        for name, value in (*reply.headers, ("content-length", str(len(reply.body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815


class LocalIssuer(Site):
    """Signs in the `person`, at a page of its own; once that was used, at once. Its clock is `ahead` of this machine's by so
    many seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.person: dict[str, Any] = {}
        self.ahead = 0
        self.knows_browser = False
        self.refresh_tokens: set[str] = set()
        self._codes: dict[str, dict[str, str]] = {}
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)

    def now(self) -> int:
        return int(time.time()) + self.ahead

    def claims_of(self, token: str) -> dict[str, Any] | None:
        """The claims of a token as API Gateway checks it; None for one that it refuses."""
        try:
            found: dict[str, Any] = jwt.decode(
                token,
                self._key.public_key(),
                algorithms=["RS256"],
                audience=CLIENT,
                issuer=self.address,
                options={"verify_exp": False, "verify_iat": False},
            )
        except jwt.InvalidTokenError:
            return None
        return found if found["exp"] > self.now() else None

    def answer(self, request: Request) -> Reply:
        pages = {
            "/.well-known/openid-configuration": self._described,
            "/authorize": self._authorized,
            "/token": self._exchanged,
            "/leave": self._left,
        }
        return pages[request.path](request) if request.path in pages else Reply(404)

    def _described(self, _request: Request) -> Reply:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "end_session_endpoint": "leave"}
        found = {name: f"{self.address}/{path}" for name, path in places.items()}
        return json_reply({"issuer": self.address, **found}, headers=_FREE)

    def _authorized(self, request: Request) -> Reply:
        given = request.parameters
        assert (given["client_id"], given["response_type"]) == (CLIENT, "code")
        assert given["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe()
        self._codes[code] = given
        back = f"{given['redirect_uri']}?{urlencode({'code': code, 'state': given['state']})}"
        if self.knows_browser:
            return Reply(302, headers=(("location", back),))
        self.knows_browser = True
        page = f"<!doctype html><title>Issuer</title><a href='{back.replace('&', '&amp;')}'>Sign in</a>"
        return Reply(200, page.encode(), (("content-type", "text/html"),))

    def _exchanged(self, request: Request) -> Reply:
        given = dict(parse_qsl(request.body.decode()))
        if given["grant_type"] == "refresh_token":
            known = given["refresh_token"] in self.refresh_tokens
            self.refresh_tokens.discard(given["refresh_token"])
            return self.tokens() if known else json_reply({"error": "invalid_grant"}, 400, _FREE)
        begun = self._codes.pop(given["code"], {})
        digest = hashlib.sha256(given["code_verifier"].encode()).digest()
        if base64.urlsafe_b64encode(digest).decode().rstrip("=") != begun.get("code_challenge"):
            return json_reply({"error": "invalid_grant"}, 400, _FREE)
        return self.tokens(nonce=begun["nonce"])

    def tokens(self, **more: str) -> Reply:
        """New tokens of the person, with more claims."""
        now = self.now()
        claims = {"iss": self.address, "aud": CLIENT, "sub": "person-1", "iat": now, "exp": now + LIFE}
        refresh = secrets.token_urlsafe()
        self.refresh_tokens.add(refresh)
        found = {
            "access_token": secrets.token_urlsafe(),
            "token_type": "Bearer",
            "expires_in": LIFE,
            "refresh_token": refresh,
            "id_token": jwt.encode({**claims, **self.person, **more}, self._key, "RS256", {"kid": "key-1"}),
        }
        return json_reply(found, headers=_FREE)

    def _left(self, request: Request) -> Reply:
        self.knows_browser = False
        self.refresh_tokens.clear()
        return Reply(302, headers=(("location", request.parameters["post_logout_redirect_uri"]),))


@dataclass
class ApiCall:
    """A request that reached the API: its route, its token, and the status of the reply."""

    route: str
    token: str
    status: int = field(default=401)


class DeployedConsole(Site):
    """The distribution, the API behind it and the bucket's signed addresses, over an installation in a folder. `after_part`
    is called after each part of a file."""

    def __init__(self, home: Path, issuer: LocalIssuer) -> None:
        super().__init__()
        self.home = home
        self._issuer = issuer
        self._files = ConsoleFiles()
        self._files.check()
        system = bootstrap(Settings(home=str(home), groups_claim="groups"))
        self._handlers = {
            Function.RETRIEVE: make_retrieve(lambda: system),
            Function.MANAGE: make_manage(lambda: system),
        }
        self.calls: list[ApiCall] = []
        self.parts: list[int] = []
        """Numbers of the parts of files that were stored."""
        self.after_part: Callable[[], object] = lambda: None
        self._uploads = serve_uploads(system, lambda: None)

    def answer(self, request: Request) -> Reply:
        if request.path.startswith(PREFIX):
            return self._file(request.path.removeprefix(PREFIX))
        if grant := self._uploads.granted(request.path.removeprefix(UPLOADS)):
            return self._stored(grant, request.body)
        key, parameters = route_of(request)
        if not key:
            return json_reply({"message": "Not Found"}, 404)
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        call = ApiCall(key, token)
        self.calls.append(call)
        claims = self._issuer.claims_of(token)
        if claims is None:
            return json_reply({"message": "Unauthorized"}, 401)
        authorizer = {"jwt": {"claims": {name: _as_text(value) for name, value in claims.items()}, "scopes": None}}
        handler = self._handlers[routes()[key].function]
        with self._uploads.at(self.address):
            found = handler(event_of(request, key, parameters, authorizer), FakeContext())
        call.status = found["statusCode"]
        return Reply(found["statusCode"], found["body"].encode(), tuple(found["headers"].items()))

    def _stored(self, grant: UploadGrant, body: bytes) -> Reply:
        """The reply of the bucket at a signed address, which wants no token."""
        found = self._uploads.put(grant, body)
        if found["statusCode"] == 200:
            self.parts.append(grant.number)
            self.after_part()
        return Reply(found["statusCode"], found["body"].encode())

    def _file(self, path: str) -> Reply:
        if path == "settings.json":
            settings = {"issuer": self._issuer.address, "clientId": CLIENT, "scope": "openid email profile"}
            return json_reply(settings)
        found = self._files.get(path)
        if found is None:
            return Reply(404)
        headers: Mapping[str, str] = {**found.headers, "content-security-policy": policy(self._issuer.address)}
        return Reply(200, found.data, tuple(headers.items()))


def _as_text(value: object) -> str:
    """A claim as API Gateway hands it over."""
    return f"[{' '.join(map(str, value))}]" if isinstance(value, list) else str(value)
