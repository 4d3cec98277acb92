"""Alerts of rule files: a node for each, and runbook -[handles]-> alert where a rule names one.

A file of the category `operations/alert_rules`, or other YAML that has rules in it, is an authority on the alerts that it
defines. Templates (`{{ $labels.pod }}`) are text like any other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from opx.domain.graph import EdgeStatement
from opx.domain.knowledge import ALERT_RULES_CATEGORY as CATEGORY
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.domain.remarks import Remark, RemarkKind
from opx.formats.data.alert_rules import HINTS, MAX_BYTES, AlertRule, UnreadableRulesError, first, read_rules
from opx.graph.extraction.gathering import MAX_NODES
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import runbook_at
from opx.graph.extraction.references import made, named
from opx.hygiene.secrets import mask
from opx.text.procedures.alerts import RULE, RUNBOOK, WHEN

_YAML = (".yaml", ".yml", ".rules")
_LENGTHS = {"severity": 100, "summary": 500, "expr": 1000, "runbook": 1000}
_MAX_WHEN = 20


def alerts_of_rules(material: Material, findings: Findings) -> None:
    """A document rule: the alerts that a file of rules defines, and runbook -[handles]-> alert where it names one."""
    document = material.document
    is_rules = document.category == CATEGORY
    if not is_rules and (document.tier is not Tier.INTERNAL or not document.source.lower().endswith(_YAML)):
        return
    with material.open() as stream:
        data = stream.read(MAX_BYTES + 1)
    if not is_rules and not HINTS.search(data):
        return
    try:
        found = read_rules(data)
    except UnreadableRulesError as exc:
        where = f", line {exc.line}" if exc.line else ""
        if is_rules:
            _remark(findings, f"the alert rules can't be read{where}: {exc}")
        return
    if is_rules and not found.rules:
        _remark(
            findings,
            "it defines no alerts: it needs `groups` with `rules`, or a list `alerts` whose entries have a `name`",
        )
    for problem in found.problems:
        _remark(findings, problem)
    _state_all(found.rules[: MAX_NODES + 1], findings)  # one too many has it remarked on


def _state_all(rules: Sequence[AlertRule], findings: Findings) -> None:
    of_alert: dict[str, list[AlertRule]] = {}
    for rule in rules:
        key = made("alert", rule.name)
        if key:
            of_alert.setdefault(key, []).append(rule)
        else:
            _remark(findings, f"line {rule.line}: {rule.name[:60]!r} is no name of an alert")
    for key, own in of_alert.items():
        _state(key, own, findings)


def _state(key: str, rules: Sequence[AlertRule], findings: Findings) -> None:
    """One alert. Several rules may define it, each with its own severity and runbook."""
    about = {name: first(getattr(rule, name) for rule in rules) for name in ("summary", "expr", "runbook")}
    about["severity"] = ", ".join(dict.fromkeys(rule.severity for rule in rules if rule.severity))
    texts = {name: _line(text)[: _LENGTHS[name]] for name, text in about.items() if text}
    statement = named(_line(rules[0].name), key, declared=True)
    findings.add(replace(statement, properties={**statement.properties, **texts}))
    named_by: dict[str, list[AlertRule]] = {}
    for rule in rules:
        if runbook := runbook_at(rule.runbook):
            named_by.setdefault(runbook, []).append(rule)
    for runbook, naming in named_by.items():
        when = [{_line(name): _line(text) for name, text in rule.labels.items()} for rule in naming[:_MAX_WHEN]]
        properties = {RUNBOOK: _line(naming[0].runbook)[: _LENGTHS["runbook"]], WHEN: json.dumps(when)}
        findings.add(EdgeStatement(runbook, "handles", key, rule=RULE, properties=properties))


def _line(text: str) -> str:
    """One line without secrets."""
    return " ".join(mask(text)[0].split())


def _remark(findings: Findings, text: str) -> None:
    findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, text))
