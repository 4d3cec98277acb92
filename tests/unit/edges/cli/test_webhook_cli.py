"""`opx webhook` and `opx evidence`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from opx_serve.application import deliveries_application
from opx_serve.deliveries import LocalDeliveries
from opx_serve.listening import HttpServer, listening_socket
from opx_streams import capability
from tests.support.cli_support import Opx
from tests.support.webhook_support import KNOWLEDGE


@pytest.fixture
def declared(tmp_path: Path) -> str:
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE)
    return str(file)


@pytest.fixture
def server(opx: Opx, declared: str) -> Iterator[str]:
    """The address of a server for the webhooks of the command's own folder."""
    from opx.domain.record import replace

    services = opx.services()
    services.installation.settings = replace(services.settings, knowledge_file=declared)
    deliveries = LocalDeliveries(lambda: services.part(capability.WebhookIngestion), lambda: None)
    with services, HttpServer(deliveries_application(deliveries), listening_socket("127.0.0.1:0")) as found:
        yield f"http://{found.address}"


class TestWebhook:
    def test_the_list_shows_addresses_and_missing_secrets(self, opx: Opx, declared: str) -> None:
        opx("secret", "set", "hub", stdin="x")
        lines = opx("webhook", "list", OPX_KNOWLEDGE_FILE=declared).output.splitlines()
        (github,) = (line for line in lines if line.startswith("github "))
        assert "http://127.0.0.1:8321/ingest/internet/web/github_issues?source=github" in github
        assert "hub (set)" in github
        (alarms,) = (line for line in lines if line.startswith("alarms "))
        assert "signed by AWS" in alarms

    def test_without_webhooks_it_names_the_section_to_declare_them_in(self, opx: Opx) -> None:
        assert "knowledge.yaml" in opx("webhook", "list").output

    def test_a_secret_is_made_up_kept_and_shown_once(self, opx: Opx, declared: str) -> None:
        value = opx("webhook", "secret", "github", OPX_KNOWLEDGE_FILE=declared).stdout.strip()
        assert len(bytes.fromhex(value)) == 32
        assert opx.services().ports.secrets.get("hub") == value

    def test_a_secret_that_is_set_is_replaced_only_with_an_option(self, opx: Opx, declared: str) -> None:
        first = opx("webhook", "secret", "github", OPX_KNOWLEDGE_FILE=declared).stdout
        again = opx("webhook", "secret", "github", OPX_KNOWLEDGE_FILE=declared)
        assert (again.exit_code, "set already" in again.output) == (2, True)
        assert opx.services().ports.secrets.get("hub") == first.strip()
        assert opx("webhook", "secret", "github", "--replace", OPX_KNOWLEDGE_FILE=declared).stdout != first

    def test_of_two_secrets_the_missing_one_is_generated(self, opx: Opx, declared: str) -> None:
        opx("secret", "set", "pager-old", stdin="x")
        value = opx("webhook", "secret", "pager", OPX_KNOWLEDGE_FILE=declared).stdout.strip()
        assert opx.services().ports.secrets.get("pager-new") == value
        assert opx("webhook", "secret", "pager", "--of", "other", OPX_KNOWLEDGE_FILE=declared).exit_code == 2

    def test_for_a_deployed_system_it_names_the_secret_to_set(self, opx: Opx, declared: str) -> None:
        found = opx("webhook", "secret", "github", OPX_KNOWLEDGE_FILE=declared, OPX_BACKEND="aws")
        assert "dev-opx-knowledge/hub in Secrets Manager" in found.output

    @pytest.mark.parametrize(
        "arguments", [("secret", "nobody"), ("secret", "alarms"), ("test", "github"), ("test", "alarms")]
    )
    def test_invalid_requests_are_refused(self, opx: Opx, declared: str, arguments: tuple[str, ...]) -> None:
        assert opx("webhook", *arguments, OPX_KNOWLEDGE_FILE=declared).exit_code == 2

    @pytest.mark.parametrize("name", ["github", "status", "prometheus"])
    def test_a_test_delivery_arrives(self, opx: Opx, declared: str, server: str, name: str) -> None:
        environ = {"OPX_KNOWLEDGE_FILE": declared, "OPX_WEBHOOK_URL": server}
        opx("webhook", "secret", name, **environ)
        found = opx("webhook", "test", name, **environ)
        assert (found.exit_code, '"accepted"' in found.output) == (0, True)

    def test_a_test_without_the_right_secret_fails(self, opx: Opx, declared: str, server: str) -> None:
        environ = {"OPX_KNOWLEDGE_FILE": declared, "OPX_WEBHOOK_URL": server}
        opx("secret", "set", "pager-old", stdin="kept")
        opx("webhook", "secret", "github", **environ)
        file = opx.write("x.json", "[]")
        found = opx("webhook", "test", "github", "--file", file, **environ)
        assert (found.exit_code, "400" in found.output) == (1, True)

    def test_it_signs_a_file_as_the_format_wants_it(self, opx: Opx, declared: str, server: str) -> None:
        opx("secret", "set", "hub", stdin="a secret of some length")
        file = opx.write("x.json", '{"id": 1, "name": "N", "text": "T"}')
        environ = {"OPX_KNOWLEDGE_FILE": declared, "OPX_WEBHOOK_URL": server}
        found = opx("webhook", "test", "deploys", "--file", file, **environ)
        assert (found.exit_code, '"accepted"' in found.output) == (0, True)

    def test_without_a_receiver_it_names_the_command_to_start(self, opx: Opx, declared: str) -> None:
        opx("secret", "set", "hub", stdin="x")
        found = opx("webhook", "test", "github", OPX_KNOWLEDGE_FILE=declared, OPX_WEBHOOK_URL="http://127.0.0.1:9")
        assert (found.exit_code, "opx run --listen" in found.output) == (2, True)


class TestEvidence:
    RUN = {"agent_type": "a", "outcome": "investigated", "task": "Why?", "conclusion": "Because."}  # noqa: RUF012

    def test_evidence_is_ingested_and_shown(self, opx: Opx) -> None:
        file = opx.write("run.json", json.dumps(self.RUN))
        found = opx("evidence", file)
        assert found.exit_code == 0
        document_id, key = found.stdout.split()
        assert key.startswith("documents/evidence/agent_runs/evidence/")
        assert "Because." in opx("show", document_id).output

    def test_from_a_pipe(self, opx: Opx) -> None:
        assert opx("evidence", "-", stdin=json.dumps(self.RUN)).exit_code == 0

    def test_an_invalid_file_does_not_prevent_others(self, opx: Opx) -> None:
        good, bad = opx.write("a.json", json.dumps(self.RUN)), opx.write("b.json", '{"agent_type": "a"}')
        found = opx("evidence", bad, opx.write("c.json", "no JSON"), good)
        assert found.exit_code == 1
        assert "needs conclusions or observations" in found.stderr
        assert "not JSON" in found.stderr
        assert len(found.stdout.splitlines()) == 1

    def test_a_missing_file_is_an_error(self, opx: Opx) -> None:
        assert opx("evidence", opx.folder / "missing.json").exit_code == 2
