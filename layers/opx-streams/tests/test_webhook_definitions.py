"""Webhooks as `knowledge.yaml` declares them: mistakes are refused with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx import plugins
from opx.connectors.deliveries import Delivery, UnverifiedError
from opx.domain.knowledge import Tier
from opx.domain.sources import WebhookDefinition
from opx.errors import KnowledgeConfigError
from opx.runtime.knowledge_file import load_knowledge
from opx_streams.webhooks.definitions import GENERIC, load_webhooks, webhook_endpoint
from opx_streams.webhooks.formats import sample, scheme_of
from tests.support.webhook_support import KNOWLEDGE, TOPIC

BARE = KNOWLEDGE.partition("webhooks:")[0]


def loaded(tmp_path: Path, webhooks: str) -> dict[str, WebhookDefinition]:
    file = tmp_path / "knowledge.yaml"
    file.write_text(BARE + webhooks)
    return load_webhooks(load_knowledge(file), file)


def test_a_file_without_the_section_has_none(tmp_path: Path) -> None:
    assert loaded(tmp_path, "") == {}


def test_the_repositorys_own_file_can_be_read() -> None:
    assert isinstance(load_webhooks(load_knowledge()), dict)


def test_a_webhook_has_the_fields_of_its_entry(tmp_path: Path) -> None:
    entry = "{category: operations/alerts, format: generic, secret: [a, b], window: 60, events: [x], tags: [t]}"
    assert loaded(tmp_path, f"webhooks: {{w: {entry}}}") == {
        "w": WebhookDefinition(
            name="w",
            tier=Tier.INTERNAL,
            category="operations/alerts",
            format="generic",
            secrets=("a", "b"),
            window=60.0,
            events=("x",),
            tags=("t",),
        )
    }


@pytest.mark.parametrize("pattern", ["issues", "issue*", "*", "discussion_comment"])
def test_events_may_be_patterns_of_known_ones(tmp_path: Path, pattern: str) -> None:
    entry = f"{{category: operations/alerts, format: github, secret: s, events: ['{pattern}']}}"
    assert loaded(tmp_path, f"webhooks: {{w: {entry}}}")["w"].events == (pattern,)


@pytest.mark.parametrize(("kind", "window"), [("generic", 300.0), ("cloudwatch", 3900.0), ("github", 0.0)])
def test_the_window_is_the_formats(tmp_path: Path, kind: str, window: float) -> None:
    named = f"topic: '{TOPIC}'" if kind == "cloudwatch" else "secret: s"
    found = loaded(tmp_path, f"webhooks: {{w: {{category: operations/alerts, format: {kind}, {named}}}}}")
    assert found["w"].window == window


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("{format: github, secret: s}", "category"),
        ("{category: cooking, format: github, secret: s}", "unknown category"),
        (
            "{category: operations/alerts, format: gitlab, secret: s}",
            "unknown format 'gitlab'; allowed: alertmanager, ",
        ),
        ("{category: operations/alerts, format: github}", "needs a secret"),
        ("{category: operations/alerts, format: github, secret: []}", "is empty"),
        ("{category: operations/alerts, format: github, secret: ''}", "must be a string"),
        ("{category: operations/alerts, format: github, secret: s, window: 60}", "sign the time of sending"),
        ("{category: operations/alerts, format: generic, secret: s, window: 5}", "window must be 30 to 86400"),
        ("{category: operations/alerts, format: generic, secret: s, window: soon}", "must be a number"),
        ("{category: operations/alerts, format: generic, secret: s, topic: x}", "only format cloudwatch"),
        ("{category: operations/alerts, format: cloudwatch, secret: s}", "has no secret"),
        ("{category: operations/alerts, format: cloudwatch}", "needs the topic"),
        ("{category: operations/alerts, format: cloudwatch, topic: 'arn:aws:sns:x:1:y'}", "not the ARN"),
        ("{category: operations/incidents, format: generic, secret: s}", "needs `json`"),
        ("{category: operations/alerts, format: generic, secret: s, json: {title: $.t}}", "needs the key 'content'"),
        (
            "{category: operations/alerts, format: jira, secret: s, json: {title: $.t, content: $.c}}",
            "only format generic",
        ),
        ("{category: operations/alerts, format: jira, secret: s, color: red}", "unknown key 'color'"),
        (
            "{category: operations/alerts, format: github, secret: s, events: [issues, issue_coment]}",
            "unknown event 'issue_coment' of format github; known: issues, issue_comment, discussion, ",
        ),
        (
            "{category: operations/alerts, format: alertmanager, secret: s, events: [fired]}",
            "unknown event 'fired' of format alertmanager; known: firing, resolved",
        ),
        ("{category: operations/alerts, format: pagerduty, secret: s, events: ['incidents.*']}", "'incidents.*'"),
        ("{category: operations/alerts, format: jira, secret: s, events: [issue_created]}", "known: jira:issue_"),
        ("{category: operations/alerts, format: statuspage, secret: s, events: [incidents]}", "incident, component"),
        (f"{{category: operations/alerts, format: cloudwatch, topic: '{TOPIC}', events: [alarm]}}", "known: ALARM, "),
        ("[]", "must be a mapping"),
    ],
)
def test_mistakes_are_refused_with_file_and_line(tmp_path: Path, entry: str, problem: str) -> None:
    with pytest.raises(KnowledgeConfigError) as caught:
        loaded(tmp_path, f"webhooks:\n  w: {entry}\n")
    line = BARE.count("\n") + 2
    assert str(caught.value).startswith(f"{tmp_path / 'knowledge.yaml'}:{line}: ")
    assert problem in str(caught.value)


@pytest.mark.parametrize("name", ["Upper", "-x", "a/b", "x" * 49])
def test_names_are_plain(tmp_path: Path, name: str) -> None:
    with pytest.raises(KnowledgeConfigError, match="names are up to 48"):
        loaded(tmp_path, f"webhooks: {{{name}: {{category: operations/alerts, format: github, secret: s}}}}")


@pytest.mark.parametrize("kind", sorted({*plugins.names(plugins.WEBHOOKS), GENERIC}))
def test_each_format_with_a_secret_has_a_scheme_and_a_sample(kind: str) -> None:
    definition = WebhookDefinition("w", Tier.INTERNAL, "operations/alerts", kind)
    body, headers = sample(definition)
    proof = scheme_of(kind).proof(b"key", body, 1_600_000_000.0)
    delivery = Delivery(
        "internal", "operations/alerts", tuple(proof.query.items()), headers | dict(proof.headers), body
    )
    assert scheme_of(kind).verify(definition, delivery, [b"key"]).delivery_id
    with pytest.raises(UnverifiedError):
        scheme_of(kind).verify(definition, delivery, [b"other"])


@pytest.mark.parametrize(
    ("base", "name", "address"),
    [
        ("", "", "http://127.0.0.1:8321/ingest/internal/operations/alerts"),
        ("https://x.example/", "grafana", "https://x.example/ingest/internal/operations/alerts?source=grafana"),
    ],
)
def test_the_address_of_a_webhook(base: str, name: str, address: str) -> None:
    assert webhook_endpoint(base, "internal", "operations/alerts", name) == address
