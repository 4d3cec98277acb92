"""Operations on webhooks, secrets and evidence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.domain.record import replace, to_json
from opx.domain.requests import read_request
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError
from opx.operations.context import Caller, Context
from opx.operations.learning import PutEvidence, put_evidence
from opx.operations.secrets import ListSecrets, RemoveSecret, SetSecret, list_secrets, remove_secret, set_secret
from opx.operations.system import System
from opx.settings import Settings
from opx_streams.operations.webhooks import (
    ListWebhooks,
    MakeWebhookSecret,
    SendTestDelivery,
    list_webhooks,
    make_webhook_secret,
    send_test_delivery,
)
from tests.support.builders import ports_of
from tests.support.cli_support import word_services
from tests.support.webhook_support import KNOWLEDGE


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    file = tmp_path / "knowledge.yaml"
    file.write_text(KNOWLEDGE)
    with word_services(Settings(home=str(tmp_path / "home"), knowledge_file=str(file))) as made:
        yield made


@pytest.fixture
def context(system: System) -> Context:
    return Context(system, Caller(Identity(), owns_system=True))


class TestWebhooks:
    def test_the_list_has_addresses_and_the_state_of_secrets(self, context: Context) -> None:
        set_secret(context, SetSecret(name="hub", value=" x\n"))
        views = {one["name"]: one for one in to_json(list_webhooks(context, ListWebhooks()))["webhooks"]}
        assert views["github"]["secrets"] == [{"name": "hub", "isSet": True}]
        assert views["github"]["address"].endswith("/ingest/internet/web/github_issues?source=github")
        assert (views["alarms"]["secrets"], views["alarms"]["format"]) == ([], "cloudwatch")

    def test_on_aws_secrets_have_the_names_of_secrets_manager(self, context: Context, system: System) -> None:
        list_webhooks(context, ListWebhooks())  # opens the tables of this machine
        system.installation.settings = replace(system.settings, backend="aws")
        made = make_webhook_secret(context, MakeWebhookSecret(name="github"))
        assert (made.name, made.kept) == ("dev-opx-knowledge/hub", False)
        views = {one.name: one for one in list_webhooks(context, ListWebhooks()).webhooks}
        assert to_json(views["github"].secrets) == [{"name": "dev-opx-knowledge/hub", "isSet": None}]

    def test_a_made_secret_is_kept(self, context: Context, system: System) -> None:
        made = make_webhook_secret(context, MakeWebhookSecret(name="github"))
        assert (made.name, made.kept, system.ports.secrets.get("hub")) == ("hub", True, made.value)
        with pytest.raises(InvalidInputError, match="hub set already"):
            make_webhook_secret(context, MakeWebhookSecret(name="github"))
        assert make_webhook_secret(context, MakeWebhookSecret(name="github", replace=True)).value != made.value

    def test_nothing_is_sent_without_a_secret(self, context: Context) -> None:
        with pytest.raises(InvalidInputError, match="no secret of webhook github is set"):
            send_test_delivery(context, SendTestDelivery(name="github"))

    def test_without_a_server_the_error_names_the_command_to_start(self, context: Context, system: System) -> None:
        system.installation.settings = replace(system.settings, webhook_url="http://127.0.0.1:9")
        make_webhook_secret(context, MakeWebhookSecret(name="github"))
        with pytest.raises(InvalidInputError, match="opx run --listen"):
            send_test_delivery(context, SendTestDelivery(name="github"))

    def test_an_unknown_one_is_refused_with_those_there_are(self, context: Context) -> None:
        with pytest.raises(InvalidInputError, match=r"there is no webhook 'x'; declared are: .*github"):
            send_test_delivery(context, SendTestDelivery(name="x"))


class TestSecrets:
    def test_they_are_listed_by_name_alone(self, context: Context) -> None:
        set_secret(context, SetSecret(name="b", value="1"))
        set_secret(context, SetSecret(name="a", value="2"))
        assert to_json(list_secrets(context, ListSecrets())) == {"names": ["a", "b"]}
        remove_secret(context, RemoveSecret(name="a"))
        assert list_secrets(context, ListSecrets()).names == ("b",)

    def test_empty_secret_and_unknown_name_are_refused(self, context: Context) -> None:
        with pytest.raises(InvalidInputError, match="the value is empty"):
            set_secret(context, SetSecret(name="a", value=" \n"))
        with pytest.raises(InvalidInputError, match="there is no secret 'a'"):
            remove_secret(context, RemoveSecret(name="a"))

    def test_those_of_a_deployed_system_are_not_set_here(self, context: Context, system: System) -> None:
        class Manager:
            def get(self, name: str) -> str:
                return name

        ports_of(system).secrets = Manager()
        with pytest.raises(InvalidInputError, match="set them there"):
            list_secrets(context, ListSecrets())


class TestEvidence:
    RUN = {"agent_type": "a", "outcome": "investigated", "task": "Why?", "conclusion": ["Because."]}  # noqa: RUF012

    @pytest.fixture
    def system(self, tmp_path: Path) -> Iterator[System]:
        with word_services(Settings(home=str(tmp_path / "home"))) as made:
            yield made

    @pytest.mark.parametrize(("client", "prefix"), [("", ""), ("acme", "clients/acme/")])
    def test_it_goes_to_the_callers_own_scope(self, system: System, client: str, prefix: str) -> None:
        request = read_request(PutEvidence, {**self.RUN, "evidence_id": "run-1"})
        stored = put_evidence(Context(system, Caller(Identity(client))), request)
        assert to_json(stored) == {"objectKey": f"{prefix}documents/evidence/agent_runs/evidence/run-1.json"}

    def test_a_category_that_requires_fields_names_them(self, context: Context) -> None:
        with pytest.raises(InvalidInputError, match="needs conclusions or observations"):
            put_evidence(context, PutEvidence(agent_type="a", outcome="b"))

    @pytest.mark.parametrize(
        ("given", "problem"),
        [
            ({"conclusion": 5}, "conclusion must be a list, not 5"),
            ({"conclusion": "Because."}, "conclusion must be a list, not 'Because.'"),
            ({"services": ["x"] * 51}, "services may have at most 50 entries, not 51"),
            ({"finished_at": "noon"}, "finished_at must be a time such as 2025-02-04T10:30:00Z, not 'noon'"),
        ],
    )
    def test_a_wrong_field_is_named(self, given: dict[str, Any], problem: str) -> None:
        with pytest.raises(InvalidInputError, match=problem):
            read_request(PutEvidence, {**self.RUN, **given})

    def test_fields_of_other_names_are_kept(self) -> None:
        request = read_request(PutEvidence, {**self.RUN, "pace": "fast", "details": {"model": "m"}})
        assert request.details == {"pace": "fast", "model": "m"}
