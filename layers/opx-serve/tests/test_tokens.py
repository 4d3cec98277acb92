"""Tokens of a local server: their declaration, and the callers that have them."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from opx.domain.policy import ADMIN_SCOPE, READ_SCOPE, WRITE_SCOPE
from opx.domain.scopes import Identity
from opx.edges.client import token_for
from opx.errors import InvalidInputError, KnowledgeConfigError, SecretNotFoundError
from opx.operations.context import Caller
from opx.settings import Settings
from opx_serve.tokens import Callers, callers, home_token, read_tokens
from tests.support.webhook_support import SecretsInMemory

VALUE, OTHER = "0123456789abcdef", "fedcba9876543210"
OWN = Identity("acme", "shop", "ana")


def declared(folder: Path, tokens: str) -> Path:
    path = folder / "knowledge.yaml"
    path.write_text(f"# tokens\n\ntokens:\n{tokens}\n")
    return path


def secrets_of(**values: str) -> SecretsInMemory:
    return SecretsInMemory(values)


class TestDeclaration:
    def test_a_token_has_a_client_a_project_scopes_and_an_agent(self, tmp_path: Path) -> None:
        text = "  bot: {secret: bot-token, client: acme, project: shop, scopes: [opx/read, opx/write], agent: triage}"
        (found,) = read_tokens(declared(tmp_path, text))
        assert (found.name, found.secret) == ("bot", "bot-token")
        expected = Caller(Identity("acme", "shop", "bot"), False, frozenset({READ_SCOPE, WRITE_SCOPE}), "triage")
        assert found.caller == expected

    def test_it_is_a_readers_of_global_knowledge_unless_more_is_declared(self, tmp_path: Path) -> None:
        (found,) = read_tokens(declared(tmp_path, "  grafana: {secret: g}"))
        assert found.caller == Caller(Identity(principal="grafana"), token_scopes=frozenset({READ_SCOPE}))

    def test_there_may_be_none(self, tmp_path: Path) -> None:
        path = tmp_path / "knowledge.yaml"
        path.write_text("{}")
        assert read_tokens(path) == ()

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("  bot: {secret: s, scopes: [opx/root]}", "unknown scope 'opx/root'; allowed: opx/admin, opx/curate"),
            ("  bot: {client: acme}", "secret"),
            ("  bot: {secret: s, cleint: acme}", "cleint"),
            ("  bot: {secret: s, client: 'a/b'}", "a/b"),
            ("  bot: {secret: s, project: shop}", "project"),
            ("  bot: x", "bot"),
            ("  bot: {secret: s, scopes: opx/read}", "list"),
        ],
    )
    def test_a_wrong_one_is_named_with_file_and_line(self, tmp_path: Path, text: str, message: str) -> None:
        path = declared(tmp_path, text)
        with pytest.raises(KnowledgeConfigError) as found:
            read_tokens(path)
        assert str(found.value).startswith(f"{path}:4")
        assert message in str(found.value)


class TestSecrets:
    def test_a_declared_token_is_its_callers(self, tmp_path: Path) -> None:
        tokens = read_tokens(declared(tmp_path, "  bot: {secret: s, client: acme}"))
        found = callers(tokens, secrets_of(s=VALUE), OWN, home=None)
        assert found.of(f"Bearer {VALUE}") == tokens[0].caller

    def test_that_of_the_option_is_an_administrators_with_the_servers_identity(self) -> None:
        found = callers((), secrets_of(s=VALUE), OWN, "s", home=None)
        assert found.of(f"Bearer {VALUE}") == Caller(OWN, token_scopes=frozenset({ADMIN_SCOPE}))

    def test_a_missing_secret_names_the_command(self) -> None:
        with pytest.raises(SecretNotFoundError):
            callers((), secrets_of(), OWN, "s", home=None)

    @pytest.mark.parametrize("value", ["", "short", "0123456789abcde", " 0123456789abcde ", "0123456789abcdeü"])
    def test_one_that_can_be_guessed_or_sent_wrongly_is_refused(self, value: str) -> None:
        with pytest.raises(InvalidInputError, match="the secret s of --token-secret needs 16 ASCII characters or more"):
            callers((), secrets_of(s=value), OWN, "s", home=None)

    def test_two_tokens_with_one_value_are_refused(self, tmp_path: Path) -> None:
        tokens = read_tokens(declared(tmp_path, "  bot: {secret: a}"))
        with pytest.raises(InvalidInputError, match="the secret b of --token-secret is that of another token"):
            callers(tokens, secrets_of(a=VALUE, b=VALUE + "\n"), OWN, "b", home=None)

    def test_without_a_token_others_must_not_reach_the_server(self) -> None:
        with pytest.raises(InvalidInputError, match="others can reach this address: give a token"):
            callers((), secrets_of(), OWN, home=None)


class TestTokenOfTheHome:
    def test_without_another_one_it_is_the_servers_own(self, tmp_path: Path) -> None:
        found = callers((), secrets_of(), OWN, home=tmp_path)
        assert found.of(f"Bearer {home_token(tmp_path)}") == Caller(OWN)
        assert (found.of(""), found.of("Bearer x"), found.is_private) == (None, None, True)

    def test_with_another_one_it_is_none(self, tmp_path: Path) -> None:
        found = callers((), secrets_of(s=VALUE), OWN, "s", home=tmp_path)
        assert (found.of(f"Bearer {home_token(tmp_path)}"), found.is_private) == (None, False)

    def test_it_is_made_once_for_its_owner_alone(self, tmp_path: Path) -> None:
        home = tmp_path / "new" / "home"
        token = home_token(home)
        assert (home_token(home), len(token) >= 32) == (token, True)
        assert [stat.S_IMODE(one.stat().st_mode) for one in (home, home / "token")] == [0o700, 0o600]

    def test_each_home_has_another(self, tmp_path: Path) -> None:
        assert home_token(tmp_path / "a") != home_token(tmp_path / "b")

    @pytest.mark.parametrize("content", [b"", b"short", "0123456789abcdeü".encode(), b"\xff" * 40])
    def test_a_damaged_one_is_named(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "token").write_bytes(content)
        with pytest.raises(InvalidInputError, match="delete it, and another is made"):
            home_token(tmp_path)

    def test_a_home_that_cant_be_written_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        with pytest.raises(InvalidInputError, match=r"--token-secret NAME"):
            home_token(tmp_path / "file")

    @pytest.mark.parametrize(
        ("url", "given", "expected"),
        [
            ("http://127.0.0.1:8321", "", "of-the-home"),
            ("http://localhost:8321", "", "of-the-home"),
            ("http://[::1]:8321", "", "of-the-home"),
            ("http://127.0.0.1:8321", "given", "given"),
            ("https://knowledge.example.com", "", ""),
            ("https://localhost.example.com", "", ""),
            ("", "", ""),
        ],
    )
    def test_commands_send_it_to_this_machine_alone(self, tmp_path: Path, url: str, given: str, expected: str) -> None:
        (tmp_path / "token").write_text("of-the-home\n")
        assert token_for(Settings(home=str(tmp_path), api_url=url, api_token=given)).strip() == expected


class TestAuthorization:
    CALLERS = Callers({VALUE: Caller(OWN), OTHER: Caller(Identity("rival"))}, Caller(OWN))

    def test_each_token_has_its_caller(self) -> None:
        found = [self.CALLERS.of(f"{scheme} {OTHER}") for scheme in ("Bearer", "bearer", "BEARER ")]
        assert found == [Caller(Identity("rival"))] * 3

    @pytest.mark.parametrize(
        "header",
        ["", "Bearer", "Bearer ", VALUE, f"Basic {VALUE}", f"Bearer {VALUE}x", f"Bearer {VALUE[:-1]}", "Bearer \xff"],
    )
    def test_others_have_none(self, header: str) -> None:
        assert self.CALLERS.of(header) is None


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        (Caller(Identity(), token_scopes=frozenset({READ_SCOPE})), True),
        (Caller(OWN, token_scopes=frozenset({ADMIN_SCOPE})), True),
        (Caller(OWN, token_scopes=frozenset({READ_SCOPE})), False),
        (Caller(Identity("rival"), token_scopes=frozenset({ADMIN_SCOPE})), False),
        (Caller(Identity("acme"), token_scopes=frozenset({ADMIN_SCOPE})), False),
    ],
)
def test_metrics_are_for_callers_without_a_client_and_the_servers_administrator(caller: Caller, expected: bool) -> None:
    assert Callers({VALUE: caller}, Caller(OWN)).watches(caller) is expected
