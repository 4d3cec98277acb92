"""Events about what work taught."""

from __future__ import annotations

from tests.infra.templates import Assembly


def test_learning_events_of_this_account_go_to_the_queue_and_are_archived(default: Assembly) -> None:
    pattern = {"source": ["opx.learning"], "account": ["<AWS::AccountId>"]}
    rule = default.only("learning", "Events::Rule")
    assert rule["EventPattern"] == pattern
    archive = default.only("learning", "Events::Archive")
    assert archive["EventPattern"] == pattern
    assert archive["RetentionDays"] == 365
    queues = {q["QueueName"]: f"<{name}.Arn>" for name, q in default.resources("learning", "SQS::Queue").items()}
    (target,) = rule["Targets"]
    assert target["Arn"] == queues["dev-opx-knowledge-learning"]
    assert target["DeadLetterConfig"]["Arn"] == queues["dev-opx-knowledge-learning-failed"]


def test_environments_have_buses_of_their_own(default: Assembly, ephemeral: Assembly) -> None:
    names = [assembly.only("learning", "Events::EventBus")["Name"] for assembly in (default, ephemeral)]
    assert names == ["dev-opx-knowledge-learning", "opx-knowledge-learning"]
