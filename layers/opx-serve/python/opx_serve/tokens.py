"""Tokens of callers of a local server: section `tokens` of `knowledge.yaml`.

    tokens:
      grafana: {secret: grafana-token, client: acme, scopes: [opx/read]}

A token's value is the secret of that name. It gives the identity and the roles, as the claims of a JWT do on AWS. A server
that only this machine can reach, and for which none is configured, has the token in its home.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from opx.domain.policy import ADMIN_SCOPE, READ_SCOPE, SCOPES
from opx.domain.scopes import Identity, reader_of
from opx.edges.client import HOME_FILE
from opx.errors import InvalidInputError, InvalidScopeError
from opx.operations.context import Caller
from opx.ports.sources import Secrets
from opx.runtime.knowledge_file import Marked, read_section
from opx_serve.console import ConsoleSessions, digest_of

SECTION = "tokens"
MIN_LENGTH = 16
"""Characters that a token needs at least, so that it can't be guessed."""

_FIELDS = ("client", "project", "scopes", "agent")


@dataclass(frozen=True, slots=True)
class DeclaredToken:
    """A token's name, the name of its secret, and the caller that has it."""

    name: str
    secret: str
    caller: Caller


class Callers:
    """Finds callers by their bearer tokens, and by the sessions of the console if it is served: these are of `own`, the
    server's own identity. `is_private`: only this machine can reach the server, at the address that it listens at."""

    def __init__(
        self,
        tokens: Mapping[str, Caller],
        own: Caller,
        sessions: ConsoleSessions | None = None,
        *,
        is_private: bool = False,
    ) -> None:
        self._by_digest = {digest_of(token): caller for token, caller in tokens.items()}
        self.own = own
        self.sessions = sessions
        self.is_private = is_private

    def all(self) -> tuple[Caller, ...]:
        """All callers."""
        return (*self._by_digest.values(), *(() if self.sessions is None else (self.own,)))

    def of(self, authorization: str, session: str = "") -> Caller | None:
        """The caller with this header `Authorization`, or with a session of the console; None for a token that is missing or
        unknown."""
        if self.sessions is not None and self.sessions.has(session):
            return self.own
        scheme, _, token = authorization.partition(" ")
        digest = digest_of(token.strip())
        found = [caller for known, caller in self._by_digest.items() if hmac.compare_digest(known, digest)]
        return found[0] if found and scheme.lower() == "bearer" else None

    def watches(self, caller: Caller) -> bool:
        """True for a caller who may see metrics of all clients: one without a client, or the server's administrator."""
        return not caller.identity.client_id or administers(caller, self.own.identity)


def administers(caller: Caller, own: Identity) -> bool:
    """True for an administrator with the server's own client and project."""
    theirs = caller.identity
    is_admin = caller.token_scopes is None or ADMIN_SCOPE in caller.token_scopes
    return is_admin and (theirs.client_id, theirs.project_id) == (own.client_id, own.project_id)


def read_tokens(path: Path | None = None) -> tuple[DeclaredToken, ...]:
    """The declared tokens. Raises `KnowledgeConfigError` with file and line."""
    section = read_section(SECTION, path)
    return tuple(_token(name, entry) for name, entry in section.entries().items()) if section else ()


def _token(name: str, entry: Marked) -> DeclaredToken:
    fields = entry.fields(required=("secret",), optional=_FIELDS)
    texts = {key: fields[key].text() if key in fields else "" for key in ("client", "project", "agent")}
    scopes = [item.text() for item in fields["scopes"].items()] if "scopes" in fields else [READ_SCOPE]
    for scope in scopes:
        if scope not in SCOPES:
            raise fields["scopes"].error(f"unknown scope {scope!r}; allowed: {', '.join(sorted(SCOPES))}")
    identity = Identity(texts["client"], texts["project"], name)
    try:
        reader_of(identity)
    except InvalidScopeError as exc:
        raise entry.error(str(exc)) from exc
    caller = Caller(identity, token_scopes=frozenset(scopes), agent=texts["agent"])
    return DeclaredToken(name, fields["secret"].text(), caller)


def callers(
    declared: tuple[DeclaredToken, ...],
    stored: Secrets,
    own: Identity,
    token_secret: str = "",
    sessions: ConsoleSessions | None = None,
    *,
    home: Path | None,
) -> Callers:
    """The callers of a server. The token in the secret `token_secret` is that of an administrator with the server's `own`
    identity; without any other token, `home_token` is the server's own.

    Raises `InvalidInputError` for a secret that isn't set, is too short, or has the value of another token's, and those of
    `home_token`.
    """
    tokens: dict[str, Caller] = {}
    named = [(one.secret, f"the token {one.name}", one.caller) for one in declared]
    if token_secret:
        named.append((token_secret, "--token-secret", Caller(own, token_scopes=frozenset({ADMIN_SCOPE}))))
    for secret, whose, caller in named:
        value = _value(stored, secret, whose)
        if value in tokens:
            raise InvalidInputError(
                f"the secret {secret} of {whose} is that of another token: each needs one of its own"
            )
        tokens[value] = caller
    itself = Caller(own, token_scopes=SCOPES if sessions is not None else None)
    if tokens:
        return Callers(tokens, itself, sessions)
    return Callers({home_token(home): itself}, itself, sessions, is_private=True)


def home_token(home: Path | None) -> str:
    """The token of the home, which is made if there is none. Raises `InvalidInputError` if it can't be, and for None, which
    stands for a server that others can reach."""
    if home is None:
        raise InvalidInputError(
            "others can reach this address: give a token that callers must have (--token-secret NAME, or for opx serve the "
            "section `tokens` of knowledge.yaml), or listen on 127.0.0.1"
        )
    path = home / HOME_FILE
    try:
        home.mkdir(0o700, parents=True, exist_ok=True)
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file,
        ):
            file.write(secrets.token_hex(24) + "\n")
        value = path.read_text(errors="replace").strip()
    except OSError as exc:
        raise InvalidInputError(f"{path}: {exc.strerror or exc}; give another token (--token-secret NAME)") from exc
    if len(value) < MIN_LENGTH or not value.isascii():
        raise InvalidInputError(f"{path} has no token of {MIN_LENGTH} ASCII characters: delete it, and another is made")
    return value


def _value(stored: Secrets, name: str, whose: str) -> str:
    """The secret. Raises `SecretNotFoundError` with what to do, and `InvalidInputError` for a short one."""
    value = stored.get(name).strip()
    if len(value) < MIN_LENGTH or not value.isascii():
        raise InvalidInputError(
            f"the secret {name} of {whose} needs {MIN_LENGTH} ASCII characters or more: "
            f"`openssl rand -hex 24 | opx secret set {name}`"
        )
    return value
