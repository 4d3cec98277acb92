"""Webhooks of a system in a folder: a clock that stands still, secrets in memory, and deliveries as services send them."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opx.connectors.deliveries import Delivery, DeliveryReply
from opx.errors import SecretNotFoundError
from opx.ingestion.files import OBJECT_METADATA
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_streams import capability
from opx_streams.webhooks.receiving import WebhookReceiver, answer
from opx_streams.webhooks.signatures import SIGNATURE_HEADER, TIMESTAMP_HEADER, generic_signature

NOW = 1_800_000_000.0
KEY = "a secret of some length"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"
KNOWLEDGE = f"""
default_category: runbooks/procedures
tiers: {{internal: {{default_trust: 1.0}}, internet: {{default_trust: 0.6}}}}
categories:
  runbooks/procedures:
    {{tier: internal, description: d, retention: permanent, schema: {{content: string}}, embed: [content]}}
  operations/alerts:
    tier: internal
    description: d
    retention: 6m
    schema: {{title: string, message: string}}
    embed: [message]
    json: {{title: $.title, content: $.message, updated: $.at}}
  operations/incidents:
    {{tier: internal, description: d, retention: 2y, schema: {{content: string}}, embed: [content]}}
  web/github_issues:
    {{tier: internet, description: d, retention: 90d, schema: {{content: string}}, embed: [content]}}
webhooks:
  github: {{category: web/github_issues, format: github, secret: hub, tags: [code]}}
  pager: {{category: operations/incidents, format: pagerduty, secret: [pager-old, pager-new]}}
  pager-few: {{category: operations/incidents, format: pagerduty, secret: hub, events: ["incident.re*"]}}
  status: {{category: operations/incidents, format: statuspage, secret: token}}
  jira: {{category: operations/incidents, format: jira, secret: hub}}
  alarms: {{category: operations/alerts, format: cloudwatch, topic: "{TOPIC}"}}
  prometheus: {{category: operations/alerts, format: alertmanager, secret: bearer}}
  deploys:
    category: operations/incidents
    format: generic
    secret: hub
    json: {{id: $.id, title: $.name, content: "$.text | $.steps", updated: $.at, tags: $.labels}}
  plain: {{category: operations/alerts, format: generic, secret: hub, window: 60}}
  forgotten: {{category: operations/alerts, format: generic, secret: never-set}}
  only: {{category: runbooks/procedures, format: jira, secret: hub}}
"""
SECRETS = {
    "hub": KEY,
    "pager-old": "old " + KEY,
    "pager-new": "new " + KEY,
    "token": "statuspage-token",
    "bearer": "prometheus:hidden",
}
CATEGORIES = {
    "github": "web/github_issues",
    "alarms": "operations/alerts",
    "prometheus": "operations/alerts",
    "plain": "operations/alerts",
    "forgotten": "operations/alerts",
    "only": "runbooks/procedures",
}


@dataclass
class SecretsInMemory:
    """`Secrets` that a test sets."""

    values: dict[str, str] = field(default_factory=lambda: dict(SECRETS))

    def get(self, name: str) -> str:
        if name not in self.values:
            raise SecretNotFoundError(f"there is no secret {name}")
        return self.values[name]


@dataclass
class Clock:
    """Stands still until it is set."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


@dataclass
class Webhooks:
    """A system with webhooks, and what it has stored."""

    services: System
    secrets: SecretsInMemory
    clock: Clock
    receiver: WebhookReceiver

    def send(self, delivery: Delivery) -> tuple[int, Any]:
        """Status, and the state or the error's code."""
        found = self.answer(delivery)
        return found.status, found.payload.get("state") or found.payload["error"]["code"]

    def answer(self, delivery: Delivery) -> DeliveryReply:
        return answer(lambda: self.receiver, delivery)

    def documents(self) -> dict[str, str]:
        """Texts by key, without the folder of documents."""
        found = {}
        for info in self.services.store.list("documents/"):
            with self.services.store.open(info.key) as stream:
                found[info.key.removeprefix("documents/")] = stream.read().decode()
        return found

    def only(self) -> str:
        (text,) = self.documents().values()
        return text

    def metadata(self, key: str) -> dict[str, Any]:
        info = self.services.store.head("documents/" + key)
        assert info is not None
        found: dict[str, Any] = json.loads(info.metadata[OBJECT_METADATA])
        return found


def webhooks_in(home: Path, knowledge: str = KNOWLEDGE, **overrides: Any) -> Webhooks:
    file = home / "knowledge.yaml"
    file.write_text(knowledge)
    clock, secrets = Clock(), SecretsInMemory()
    settings = Settings(home=str(home / "kb"), knowledge_file=str(file))
    services = bootstrap(settings, clock=clock, secrets=secrets, **overrides)
    return Webhooks(services, secrets, clock, services.part(capability.WebhookIngestion).receiver)


def bare(name: str, body: object = b"{}", headers: Mapping[str, str] | None = None, **query: str) -> Delivery:
    """A delivery that nothing vouches for."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    category = CATEGORIES.get(name, "operations/incidents")
    tier = "internet" if category.startswith("web/") else "internal"
    return Delivery(tier, category, (("source", name), *query.items()), headers or {}, data)


def hub_signed(name: str, body: object, header: str, prefix: str = "sha256=", key: str = KEY, **more: str) -> Delivery:
    """Signed over the body, as GitHub, Jira and PagerDuty do it. `more` are headers with _ for -."""
    plain = bare(name, body)
    signature = prefix + hmac.new(key.encode(), plain.body, hashlib.sha256).hexdigest()
    return bare(name, plain.body, {header: signature, **{n.replace("_", "-"): value for n, value in more.items()}})


def github(body: object, event: str = "issues", key: str = KEY) -> Delivery:
    return hub_signed("github", body, "x-hub-signature-256", key=key, x_github_event=event)


def pagerduty(body: object, name: str = "pager", key: str = SECRETS["pager-new"]) -> Delivery:
    return hub_signed(name, body, "x-pagerduty-signature", "v1=", key)


def jira(body: object) -> Delivery:
    return hub_signed("jira", body, "x-hub-signature")


def statuspage(body: object) -> Delivery:
    return bare("status", body, token=SECRETS["token"])


def prometheus(body: object) -> Delivery:
    return bare("prometheus", body, {"authorization": "Bearer " + SECRETS["bearer"]})


def generic(body: object, name: str = "deploys", at: float = NOW, key: str = KEY) -> Delivery:
    plain = bare(name, body)
    stamp = str(int(at)).encode()
    signature = "v1=" + generic_signature(key.encode(), stamp, plain.body).decode()
    return bare(name, plain.body, {TIMESTAMP_HEADER: stamp.decode(), SIGNATURE_HEADER: signature})


def an_issue(action: str = "opened", updated: str = "2026-01-02T10:00:00Z", **more: Any) -> dict[str, Any]:
    issue = {
        "number": 7,
        "title": "Pods restart",
        "body": "They run out of memory.\n\n# Cause\n\nA leak.",
        "state": "open",
        "labels": [{"name": "bug"}],
        "user": {"login": "ana"},
        "html_url": "https://github.com/acme/shop/issues/7",
        "created_at": "2026-01-02T09:00:00Z",
        "updated_at": updated,
        **more,
    }
    return {"action": action, "issue": issue, "repository": {"full_name": "acme/shop"}}


def a_comment(
    text: str, at: str, *, action: str = "created", number: int = 1, updated: str = "", **issue: Any
) -> dict[str, Any]:
    """A delivery of `issue_comment`: the comment was written at `at` and last changed at `updated`, as was its issue."""
    changed = updated or at
    comment = {
        "id": number,
        "user": {"login": "bo", "type": "User"},
        "author_association": "MEMBER",
        "created_at": at,
        "updated_at": changed,
        "body": text,
    }
    return {**an_issue(action, **{"updated": changed, **issue}), "comment": comment}


def an_incident(status: str = "triggered", at: str = "2026-01-02T10:00:00.100Z", event: str = "") -> dict[str, Any]:
    data = {
        "id": "PGR0VU2",
        "type": "incident",
        "number": 2,
        "title": "Checkout is slow",
        "status": status,
        "html_url": "https://acme.pagerduty.com/incidents/PGR0VU2",
        "created_at": "2026-01-02T09:58:00Z",
        "service": {"summary": "Checkout"},
        "assignees": [{"summary": "Ana"}],
        "priority": {"summary": "P1"},
        "urgency": "high",
    }
    return {"event": {"id": "e1", "event_type": event or f"incident.{status}", "occurred_at": at, "data": data}}
