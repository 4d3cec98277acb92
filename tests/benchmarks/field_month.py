"""A month as `field` feeds it: alerts of given rules as they fire, and agent runs, changes and tickets in their words.

The labels of alerts are made up, their templates filled in, and the page is the one that the rule's `runbook_url` leads to.
All depends on a seed alone.
"""

from __future__ import annotations

import json
import random
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from opx.formats.data.alert_rules import EXTENSIONS

DAYS = 30
_NEVER = "0001-01-01T00:00:00Z"
_TEMPLATE = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.DOTALL)
_LABEL = re.compile(r"\$labels\.(\w+)")
_SUMMARIES = ("summary", "message", "description")
_SHAPES = {
    "namespace": "{team}",
    "pod": "{service}-{hash}",
    "node": "worker-{small}",
    "nodename": "worker-{small}",
    "instance": "10.0.{small}.{large}:9100",
    "job": "{service}",
    "service": "{service}",
    "container": "{service}",
    "deployment": "{service}",
    "statefulset": "{service}",
    "daemonset": "{service}-agent",
    "persistentvolumeclaim": "data-{service}-{small}",
    "device": "nvme{small}n1",
    "mountpoint": "/var/lib/{service}",
}
"""Values of labels; others have their own name and a number."""
_ALWAYS = ("namespace", "pod", "node", "instance", "job", "service")
_TEAMS = ("shop", "payments", "search", "logistics", "identity")
_SERVICES = ("orders", "checkout", "ledger", "catalog", "sessions", "mailer", "invoices", "gateway")


@dataclass(frozen=True)
class FieldAlert:
    """An alert of a rule. `page` is the one that its rule names, None if it is not there."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    page: Path | None
    started: datetime

    @property
    def summary(self) -> str:
        return next((self.annotations[name] for name in _SUMMARIES if self.annotations.get(name)), "")

    def payload(self, status: str = "firing") -> dict[str, Any]:
        """The alert as Alertmanager notifies about it; a resolved one ended twenty minutes after it started."""
        ended = (self.started + timedelta(minutes=20)).isoformat() if status == "resolved" else _NEVER
        return {
            "status": status,
            "labels": dict(self.labels),
            "annotations": dict(self.annotations),
            "startsAt": self.started.isoformat(),
            "endsAt": ended,
            "generatorURL": f"http://prometheus:9090/graph?g0.expr={self.name}",
            "fingerprint": sha256(json.dumps(dict(self.labels), sort_keys=True).encode()).hexdigest()[:16],
        }

    def questions(self) -> dict[str, str]:
        """By kind: its name, its summary if there is one, and its payload as pasted from a notification."""
        found = {"name": self.name, "summary": self.summary, "payload": json.dumps(self.payload(), indent=2)}
        return {kind: text for kind, text in found.items() if text}


def read_alerts(folder: Path, seed: int, now: datetime) -> list[FieldAlert]:
    """The alerts that rules below `rules` define, which started within the last 30 days; of rules of one name, the first."""
    pages = sorted(path for path in (folder / "runbooks").rglob("*.*") if path.is_file())
    rules = {str(rule["alert"]): rule for rule in reversed(list(rules_in(folder / "rules")))}
    return [_alert(rule, pages, random.Random(f"{seed} {name}"), now) for name, rule in sorted(rules.items())]


def rule_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in EXTENSIONS)


def rules_in(folder: Path) -> Iterator[Mapping[str, Any]]:
    """The alerting rules of all files. One that is no YAML is named and left out."""
    for path in rule_files(folder):
        try:
            documents = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
        except (yaml.YAMLError, UnicodeDecodeError) as exc:
            print(f"{path}: its rules are not asked about: {str(exc).splitlines()[0]}", file=sys.stderr)
            continue
        for document in documents:
            yield from _rules_of(document)


def _rules_of(document: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(document, dict):
        return
    for item in document.get("items") or ():
        yield from _rules_of(item)
    for group in document.get("groups") or (document.get("spec") or {}).get("groups") or ():
        yield from (rule for rule in group.get("rules") or () if rule.get("alert"))


def _alert(rule: Mapping[str, Any], pages: Sequence[Path], drawn: random.Random, now: datetime) -> FieldAlert:
    notes = {name: str(text) for name, text in (rule.get("annotations") or {}).items()}
    named = sorted({label for text in notes.values() for label in _LABEL.findall(text)})
    parts = _parts_of_labels(drawn)
    made = {label: _SHAPES.get(label, f"{label}-{{small}}").format(**parts) for label in (*_ALWAYS, *named)}
    own = {name: filled_in(str(text), made, drawn) for name, text in (rule.get("labels") or {}).items()}
    labels = {**made, **own, "alertname": str(rule["alert"])}
    return FieldAlert(
        name=labels["alertname"],
        labels=labels,
        annotations={name: filled_in(text, labels, drawn) for name, text in notes.items()},
        page=page_of(notes.get("runbook_url", ""), pages),
        started=now - timedelta(minutes=drawn.randrange(60, DAYS * 24 * 60)),
    )


def _parts_of_labels(drawn: random.Random) -> dict[str, Any]:
    return {
        "team": drawn.choice(_TEAMS),
        "service": drawn.choice(_SERVICES),
        "hash": f"{drawn.randrange(16**9):09x}",
        "small": drawn.randrange(10, 40),
        "large": drawn.randrange(2, 250),
    }


def filled_in(text: str, labels: Mapping[str, str], drawn: random.Random) -> str:
    """The text of a template: labels and values are filled in, and what else it computes is left out."""

    def value_of(found: re.Match[str]) -> str:
        if label := _LABEL.search(found[1]):
            return labels.get(label[1], "")
        return f"{drawn.uniform(1, 99):.2f}" if "value" in found[1] else ""

    return _TEMPLATE.sub(value_of, text).strip()


def page_of(address: str, pages: Sequence[Path]) -> Path | None:
    """The page whose path ends most like the address, whatever the case and the extension; None without one, or with
    several that are equally like it."""
    wanted = _parts(urlsplit(address).path)
    alike = {page: _common_end(wanted, _parts(page.as_posix())) for page in pages}
    most = max(alike.values(), default=0)
    best = [page for page, count in alike.items() if count == most]
    return best[0] if most and len(best) == 1 else None


def _parts(path: str) -> list[str]:
    parts = [part.casefold() for part in path.split("/") if part]
    return [*parts[:-1], parts[-1].rpartition(".")[0] or parts[-1]] if parts else []


def _common_end(one: Sequence[str], other: Sequence[str]) -> int:
    count = 0
    for mine, theirs in zip(reversed(one), reversed(other), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


# -- runs, changes and tickets

_TITLES = {
    "run": ("{name} on {place}", "Investigate {name}", "{summary} ({place})", "{summary}"),
    "change": (
        "Deploy {service} {number} because of {name}",
        "{place}: {name}",
        "Change limits of {service}: {summary}",
    ),
    "ticket": ("{summary}", "{place}: {summary}", "{name} again on {place}", "{service}: {summary}"),
}
_OUTCOMES = (
    "{name} ended after a restart of {service}.",
    "{name} ended by itself after {number} minutes.",
    "Rolled {service} back; then it was over: {summary}",
    "{sentence} That helped on {place}.",
    "Nothing helped yet: {summary}",
)


class Month:
    """Records of a month, drawn by a seed from the words of alerts and of their pages."""

    def __init__(self, alerts: Sequence[FieldAlert], seed: int, now: datetime) -> None:
        self._alerts = alerts
        self._drawn = random.Random(seed)
        self._now = now
        self._sentences = {alert.name: sentences_of(alert.page) for alert in alerts if alert.page}

    def _record(self, kind: str) -> dict[str, Any]:
        """The parts that runs, changes and tickets have."""
        alert = self._drawn.choice(self._alerts)
        sentences = self._sentences.get(alert.name) or [alert.summary]
        words = {
            "name": alert.name,
            "summary": alert.summary,
            "sentence": self._drawn.choice(sentences),
            "place": self._drawn.choice([alert.labels[each] for each in ("node", "pod", "namespace", "instance")]),
            "service": alert.labels["service"],
            "number": str(self._drawn.randrange(2, 60)),
        }
        began = self._now - timedelta(minutes=self._drawn.randrange(60, DAYS * 24 * 60))
        return {
            **words,
            "title": self._drawn.choice(_TITLES[kind]).format(**words),
            "outcome": self._drawn.choice(_OUTCOMES).format(**words),
            "began": began.isoformat(timespec="seconds"),
            "ended": (began + timedelta(minutes=30)).isoformat(timespec="seconds"),
        }

    def run(self, number: int) -> dict[str, Any]:
        """Evidence of an agent."""
        made = self._record("run")
        return {
            "evidence_id": f"run-{number}",
            "agent": "investigator",
            "node": made["place"],
            "symptom": made["summary"],
            "task": made["title"],
            "observations": [made["summary"], made["sentence"]],
            "conclusion": made["outcome"],
            "outcome": self._drawn.choice(("resolved", "investigated", "failed")),
            "verified": self._drawn.random() < 0.3,
            "services": [made["service"]],
            "started_at": made["began"],
            "finished_at": made["ended"],
        }

    def change(self, number: int) -> dict[str, Any]:
        """A record of a deployment."""
        made = self._record("change")
        return {
            "title": f"{made['title']} (CHG-{number})",
            "description": f"{made['summary']} {made['outcome']}",
            "affected_systems": [made["service"], made["place"]],
            "author": "deployer",
            "created_at": made["began"],
            "completed_at": made["ended"],
        }

    def ticket(self, number: int) -> dict[str, Any]:
        """A ticket with a comment."""
        made = self._record("ticket")
        text = f"{made['name']} fired on {made['place']}: {made['summary']}\n\nComment: {made['outcome']}"
        return {"id": f"OPS-{number}", "title": made["title"], "text": text, "updated_at": made["ended"]}


def sentences_of(page: Path) -> list[str]:
    """The lines of prose of a page."""
    lines = map(str.strip, page.read_text(encoding="utf-8", errors="replace").splitlines())
    return [line for line in lines if len(line) > 40 and line[0].isalpha()]
