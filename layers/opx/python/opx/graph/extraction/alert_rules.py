"""Alerting rules: which alerts there are, how severe each is, and the runbook that its annotations name.

A file of the category `operations/alert_rules`: Prometheus rules (`groups: - rules: - alert:`), the same in a PrometheusRule
object (`spec.groups`) or a list of such (`items`), or a plain list `alerts: [{name, runbook, severity, summary}]`. It is an
authority on the alerts that it defines. Templates (`{{ $labels.pod }}`) are text like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import yaml

from opx.domain.graph import EdgeStatement
from opx.domain.record import replace
from opx.domain.remarks import Remark, RemarkKind
from opx.graph.extraction.gathering import MAX_NODES
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import runbook_at
from opx.graph.extraction.references import made, named
from opx.hygiene.secrets import mask
from opx.procedures.alerts import RUNBOOK_KEYS

CATEGORY = "operations/alert_rules"
RULE = "alert rule"

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 50
MAX_VISITED = 300_000
"""Rules and groups that are looked at: YAML's aliases can stand for billions of them in a small file."""

_LENGTHS = {"severity": 100, "summary": 500, "expr": 1000, "runbook": 1000}
_SUMMARY_KEYS = ("summary", "description", "message")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class UnreadableRulesError(ValueError):
    """What is wrong with a file of rules, and in which line, 0 for none."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert as a rule defines it, in this line of its file. `runbook` is the address or the path that it names."""

    name: str
    line: int
    severity: str = ""
    summary: str = ""
    expr: str = ""
    runbook: str = ""


def alerts_of_rules(material: Material, findings: Findings) -> None:
    """A document rule: the alerts that a file of rules defines, and runbook -[handles]-> alert where it names one."""
    if material.document.category != CATEGORY:
        return
    try:
        with material.open() as stream:
            rules = read_rules(stream.read(MAX_BYTES + 1))
    except UnreadableRulesError as exc:
        where = f", line {exc.line}" if exc.line else ""
        _remark(findings, f"the alert rules can't be read{where}: {exc}")
        return
    if not rules:
        _remark(
            findings,
            "it defines no alerts: it needs `groups` with `rules`, or a list `alerts` whose entries have a `name`",
        )
    for rule in rules[: MAX_NODES + 1]:  # one too many has it remarked on
        key = made("alert", rule.name)
        if key:
            _state(rule, key, findings)
        else:
            _remark(findings, f"line {rule.line}: {rule.name[:60]!r} is no name of an alert")


def _state(rule: AlertRule, key: str, findings: Findings) -> None:
    about = {name: _line(getattr(rule, name))[:most] for name, most in _LENGTHS.items()}
    statement = named(_line(rule.name), key, declared=True)
    findings.add(
        replace(statement, properties={**statement.properties, **{name: text for name, text in about.items() if text}})
    )
    runbook = runbook_at(rule.runbook)
    if runbook:
        findings.add(EdgeStatement(runbook, "handles", key, rule=RULE))


def _line(text: str) -> str:
    """One line without secrets."""
    return " ".join(mask(text)[0].split())


def _remark(findings: Findings, text: str) -> None:
    findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, text))


# -- files


def read_rules(data: bytes) -> list[AlertRule]:
    """The alerts that a file defines, in its order. Raises `UnreadableRulesError`."""
    if len(data) > MAX_BYTES:
        raise UnreadableRulesError(f"it has more than {MAX_BYTES // 1024 // 1024} MiB; split it")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        raise UnreadableRulesError(
            f"it is not UTF-8: {exc.reason} at byte {exc.start}", data.count(b"\n", 0, exc.start) + 1
        ) from exc
    try:
        _check_depth(text)
        found = [one for document in yaml.compose_all(text, _LOADER) if document for one in _visited(document)]
    except yaml.MarkedYAMLError as exc:
        mark: yaml.Mark | None = exc.problem_mark or exc.context_mark
        raise UnreadableRulesError(
            f"it is no YAML: {exc.problem or exc.context}", mark.line + 1 if mark else 0
        ) from exc
    except yaml.YAMLError as exc:
        raise UnreadableRulesError(f"it is no YAML: {' '.join(str(exc).split())[:200]}") from exc
    return [rule for node in found if node is not None and (rule := _rule(node))]


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            mark = event.start_mark
            raise UnreadableRulesError(f"it is nested deeper than {MAX_DEPTH} levels", mark.line + 1 if mark else 0)


def _visited(document: yaml.Node) -> list[yaml.Node | None]:
    """The entries that may be rules, and None for each group."""
    found = list(islice(_entries(document), MAX_VISITED + 1))
    if len(found) > MAX_VISITED:
        raise UnreadableRulesError(f"it has more than {MAX_VISITED:,} rules and groups; split it")
    return found


def _entries(document: yaml.Node, *, in_list: bool = False) -> Iterator[yaml.Node | None]:
    if isinstance(document, yaml.SequenceNode):
        yield from document.value
        return
    fields = _fields(document)
    if not in_list:
        for item in _items(fields.get("items")):
            yield None
            yield from _entries(item, in_list=True)
    yield from _items(fields.get("alerts"))
    groups = fields.get("groups") or _fields(fields.get("spec")).get("groups")
    for group in _items(groups):
        yield None
        yield from _items(_fields(group).get("rules"))


def _rule(node: yaml.Node) -> AlertRule | None:
    """None for a rule that records, and for what is no rule."""
    fields = _fields(node)
    name = _text(fields.get("alert")) or ("" if "record" in fields else _text(fields.get("name")))
    if not name:
        return None
    labels, annotations = _fields(fields.get("labels")), _fields(fields.get("annotations"))
    parts = (annotations, labels, fields)
    return AlertRule(
        name=name,
        line=node.start_mark.line + 1,
        severity=_text(labels.get("severity")) or _text(fields.get("severity")),
        summary=next((text for key in _SUMMARY_KEYS for part in parts if (text := _text(part.get(key)))), ""),
        expr=_text(fields.get("expr")),
        runbook=next((text for part in parts for key in RUNBOOK_KEYS if (text := _text(part.get(key)))), ""),
    )


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value).strip() if isinstance(node, yaml.ScalarNode) and node.tag != "tag:yaml.org,2002:null" else ""
