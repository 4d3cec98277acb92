"""Secrets that sources may use: none that the author of a registered source could have sent to an address of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.record import replace
from opx.errors import SecretNotFoundError
from opx.operations.system import System
from opx.ports.sources import Secrets
from tests.support.webhook_support import KNOWLEDGE, webhooks_in

INTERNET = "internet: {search_provider: brave, api_key_env: BRAVE_API_KEY}\n"
DECLARED = """
sources:
  issues: {kind: jira, category: operations/incidents, options: {base_url: "https://jira.example", projects: A}}
"""
VALUES = {"jira-token": "t", "BRAVE_API_KEY": "b", "vision": "v"}


@pytest.fixture
def services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    """With webhooks, live search, a model for pictures, and a source in knowledge.yaml and one that is registered."""
    made = webhooks_in(tmp_path, KNOWLEDGE + INTERNET + DECLARED)
    made.services.installation.settings = replace(made.services.settings, vision_secret="vision")
    made.secrets.values.update(VALUES)
    with made.services as found:
        register(found, "registered")
        yield found


def register(services: System, name: str, **options: str) -> None:
    options |= {"base_url": "https://evil.example", "projects": "A"}
    given = {"name": name, "kind": "jira", "options": options}
    services.manager.register_source(given, "", "internal", "operations/incidents")


def secrets_of(services: System, source_id: str) -> Secrets:
    connected = services.connectors.connected(services.connectors.sources.get(source_id))
    connected.close()
    return connected.connector.secrets


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("hub", "webhook"),
        ("pager-old", "webhook pager"),
        ("BRAVE_API_KEY", "live search"),
        ("vision", "the model that describes pictures"),
    ],
)
def test_a_registered_source_gets_no_secret_that_is_for_something_else(services: System, name: str, owner: str) -> None:
    with pytest.raises(SecretNotFoundError, match=f"the secret {name} belongs to {owner}"):
        secrets_of(services, "registered").get(name)


def test_a_registered_source_gets_those_of_sources(services: System) -> None:
    assert secrets_of(services, "registered").get("jira-token") == "t"


def test_a_source_of_the_knowledge_file_gets_all(services: System) -> None:
    secrets = secrets_of(services, "issues")
    assert [secrets.get(name) for name in ("jira-token", "BRAVE_API_KEY")] == ["t", "b"]


def test_health_reports_the_refused_secret(services: System) -> None:
    register(services, "curious", token_secret="hub")
    connected = services.connectors.connected(services.connectors.sources.get("curious"))
    try:
        assert "a registered source needs one of its own" in connected.connector.check().reason
    finally:
        connected.close()


def test_secrets_of_webhooks_stay_reserved_while_these_are_declared_wrongly(services: System) -> None:
    secrets = secrets_of(services, "registered")
    file = Path(services.settings.knowledge_file)
    file.write_text(file.read_text().replace("format: github", "format: gitlab"))
    assert secrets.get("jira-token") == "t"
    with pytest.raises(SecretNotFoundError, match="the secret hub belongs to webhook"):
        secrets.get("hub")
