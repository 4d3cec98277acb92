"""An installation without opx-streams: what is missing, and what says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx import plugins
from opx.connectors.control import reserved_secrets
from opx.edges.cli.help import unknown_command
from opx.errors import MissingDistributionError
from opx.runtime.knowledge_file import unread_sections
from opx.settings import Settings
from opx_serve.deliveries import LocalDeliveries
from tests.support.stream_support import SystemUnderTest

INSTALL = "pip install opx-streams"


@pytest.fixture(autouse=True)
def _without(monkeypatch: pytest.MonkeyPatch) -> None:
    others = {
        group: {name: one for name, one in found.items() if not one.distributions[0].startswith("opx-streams ")}
        for group, found in plugins._all().items()
    }
    monkeypatch.setattr(plugins, "_all", lambda: others)


def test_streams_and_webhooks_can_not_be_registered(tmp_path: Path) -> None:
    with SystemUnderTest(tmp_path).services as services:
        with pytest.raises(MissingDistributionError, match=INSTALL):
            services.manager.subscribe_stream("redis://h:1/0#k", "internal", "operations/incidents")
        with pytest.raises(MissingDistributionError, match=INSTALL):
            services.manager.get_webhook_endpoint("internal", "operations/incidents")
        assert services.connectors.stream_feeds() == ()


def test_the_server_answers_deliveries_with_404(tmp_path: Path) -> None:
    with SystemUnderTest(tmp_path).services as services:
        found = LocalDeliveries(lambda: services.needed_part("webhooks"), lambda: None)
        reply = found.answer("POST", "/ingest/internal/operations/incidents", "", {}, b"{}")
    assert (reply["statusCode"], INSTALL in reply["body"]) == (404, True)


@pytest.mark.parametrize("command", ["stream", "webhook"])
def test_commands_name_their_distribution(command: str) -> None:
    assert unknown_command(command, []).endswith(INSTALL)


def test_declared_sections_that_nothing_reads_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    file.write_text("webhooks: {}\nstreams: {live: {source: s, category: c}}\n")
    assert unread_sections(file) == {"streams": "opx-streams"}
    file.write_text("webhooks: {}\nstreams: {}\n")
    assert not unread_sections(file)


def test_secrets_of_declared_webhooks_stay_reserved(tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    file.write_text("webhooks: {a: {secret: one}, b: {secret: [two, three]}, c: {topic: t}}\n")
    assert reserved_secrets(Settings(knowledge_file=str(file))) == {
        "one": "webhook a",
        "two": "webhook b",
        "three": "webhook b",
    }
