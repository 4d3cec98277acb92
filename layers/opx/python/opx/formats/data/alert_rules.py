"""Reads alerting rules: the alerts that they define, each one's severity, and the runbook named by its annotations.

Supported forms: Prometheus rules (`groups: - rules: - alert:`), the same in a PrometheusRule object (`spec.groups`) or a
list of such (`items`), the reply of `/api/v1/rules` (`data.groups`), rules as Grafana exports them, CloudWatch alarms and
those of a CloudFormation template, Datadog monitors, the alerts of Alertmanager (`/api/v2/alerts`, a webhook's payload), or a
plain list `alerts: [{name, runbook, severity, summary}]`. A file is authoritative for the alerts that it defines. Templates
(`{{ $labels.pod }}`) are text like any other; a file that is no YAML because of them is read line by line.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import yaml

from opx.text.procedures.alerts import RUNBOOK_KEYS

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 50
MAX_VISITED = 300_000
"""Rules and groups that are visited: YAML's aliases can stand for billions of them in a small file."""

EXTENSIONS = (".yaml", ".yml", ".json", ".rules")
"""Extensions of files that may hold rules."""

_LENGTHS = {"severity": 100, "summary": 500, "expr": 1000, "runbook": 1000}
_MAX_LABELS = 10
_MAX_LABEL = 100
_MAX_PROBLEMS = 20
_SUMMARY_KEYS = ("summary", "description", "AlarmDescription", "message")
_EXPR_KEYS = ("expr", "query", "AlarmRule")
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_ALARM_TYPES = ("AWS::CloudWatch::Alarm", "AWS::CloudWatch::CompositeAlarm")
_LISTS = ("alerts", "MetricAlarms", "CompositeAlarms", "monitors")
_MONITORS = (
    {"alert", "expr"},
    {"alert", "annotations"},
    {"title", "condition", "ruleGroup"},
    {"name", "message", "query", "type"},
    {"labels", "annotations", "startsAt"},
)
_HELM = re.compile(r"\{\{[^}\n]*(?:\.Values|\.Release|\.Chart|\b(?:include|define)\b)")
_TEMPLATED = re.compile(r"\{[{%]")
_TEMPLATE = re.compile(r"(?:^|[:-][ \t])[ \t]*\{[{%]")
"""The beginning of a template where YAML expects a value, outside of quotes."""

HINTS = re.compile(rb"\b(?:groups|MetricAlarms|CompositeAlarms)\b|\"query\"\s*:")
"""A file without any of these words isn't recognised as one of rules."""

_ADDRESS = re.compile(r"https?://[^\s<>\"'`|\\]+")
_CALLED = re.compile(r"(?:run|play)[ _-]?book|procedure|\bsop\b", re.IGNORECASE)
_CALLED_PATH = re.compile(
    rf"(?:{_CALLED.pattern})s?(?:\s*[:=]|\s+(?:is|in|at|see))?[\s`'\"(<]+"
    r"((?:\.{0,2}/)?[\w.-]{1,200}(?:/[\w.-]{1,200}){0,20}\.(?:md|markdown|html?|rst|adoc|asciidoc|txt|pdf|docx)\b(?:#[\w.-]*\w)?)",
    re.IGNORECASE,
)


class UnreadableRulesError(ValueError):
    """A file of rules is invalid, at this line (0: unknown)."""

    def __init__(self, problem: str, line: int = 0) -> None:
        super().__init__(problem)
        self.line = line


@dataclass(frozen=True, slots=True)
class AlertRule:
    """An alert as a rule defines it. `line` is its line in the file, 0 if unknown; `runbook` the address or path that
    it names; `labels` those that each alert of the rule has; `owner` the person or team that it is assigned to."""

    name: str
    line: int
    severity: str = ""
    summary: str = ""
    expr: str = ""
    runbook: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""


@dataclass(frozen=True, slots=True)
class RuleFile:
    """Alerts defined by a file, in file order, and the rules left out. `pure`: the file has nothing but rules."""

    rules: Sequence[AlertRule] = ()
    problems: Sequence[str] = ()
    pure: bool = False


def is_rule_file(data: bytes) -> bool:
    """True if a file's content consists of alerting rules and nothing else."""
    if not HINTS.search(data):
        return False
    try:
        found = read_rules(data)
    except UnreadableRulesError:
        return False
    return found.pure and bool(found.rules)


def read_rules(data: bytes, *, max_bytes: int = MAX_BYTES) -> RuleFile:
    """Parses the alerts defined by a file. Raises `UnreadableRulesError`."""
    if len(data) > max_bytes:
        raise UnreadableRulesError(f"it has more than {max_bytes // 1024 // 1024} MiB; split it")
    text = _decoded(data)
    try:
        documents = _documents(text)
    except UnreadableRulesError:
        if _TEMPLATED.search(text) and (rules := _rules_of_template(text)).rules:
            return rules
        raise
    visited = list(islice((one for document in documents for one in _entries(document)), MAX_VISITED + 1))
    if len(visited) > MAX_VISITED:
        raise UnreadableRulesError(f"it has more than {MAX_VISITED:,} rules and groups; split it")
    reading = _Reading()
    for node in filter(None, visited):
        reading.read(node)
    return RuleFile(reading.rules, reading.problems, all(map(_is_pure, documents)))


def _rules_of_template(text: str) -> RuleFile:
    reading = _Reading()
    for line, fields in rules_by_line(text):
        pairs = [(yaml.ScalarNode("", name), yaml.ScalarNode("", value)) for name, value in fields.items()]
        reading.read(yaml.MappingNode("", pairs), line)
    return RuleFile(reading.rules, [NOTE, *reading.problems])


def _decoded(data: bytes) -> str:
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as exc:
        raise UnreadableRulesError(
            f"it is not {encoding.upper().removesuffix('-SIG')}: {exc.reason} at byte {exc.start}",
            data.count(b"\n", 0, exc.start) + 1,
        ) from exc
    if not text.strip():
        raise UnreadableRulesError("it is empty")
    if "\0" in text:
        raise UnreadableRulesError("it is binary data, not text")
    return text


def _documents(text: str) -> list[yaml.Node]:
    """Composes the documents of YAML, or of JSON, which has escapes that YAML lacks."""
    if text.lstrip().startswith(("{", "[")):
        try:
            return [_json_node(json.loads(text))]
        except RecursionError as exc:
            raise UnreadableRulesError(f"it is nested deeper than {MAX_DEPTH} levels") from exc
        except ValueError:
            pass  # YAML may begin so, too
    try:
        _check_depth(text)
        return [document for document in yaml.compose_all(text, _LOADER) if document]
    except yaml.MarkedYAMLError as exc:
        mark: yaml.Mark | None = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 0
        raise UnreadableRulesError(_yaml_problem(text, line, exc.problem or exc.context or ""), line) from exc
    except yaml.YAMLError as exc:
        raise UnreadableRulesError(f"it is no YAML: {' '.join(str(exc).split())[:200]}") from exc


def _yaml_problem(text: str, line: int, problem: str) -> str:
    """Describes why a string isn't YAML; for a template, also the remedy."""
    nearby = text.splitlines()[max(line - 3, 0) : line]
    if _HELM.search(text) or any(map(_TEMPLATE.search, nearby)):
        return "it is a template and no YAML: render it first, such as with `helm template`"
    return f"it is no YAML: {problem}"


def _check_depth(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, _LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            mark = event.start_mark
            raise UnreadableRulesError(f"it is nested deeper than {MAX_DEPTH} levels", mark.line + 1 if mark else 0)


def _json_node(value: Any, depth: int = 0) -> yaml.Node:
    if depth > MAX_DEPTH:
        raise UnreadableRulesError(f"it is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        pairs = [(yaml.ScalarNode("", key), _json_node(one, depth + 1)) for key, one in value.items()]
        return yaml.MappingNode("", pairs)
    if isinstance(value, list):
        return yaml.SequenceNode("", [_json_node(one, depth + 1) for one in value])
    return yaml.ScalarNode(_NULL if value is None else "", str(value))


# -- rules of a document


def _entries(document: yaml.Node, *, in_list: bool = False) -> Iterator[yaml.Node | None]:
    """Yields the nodes that may be rules, and None for each group."""
    if isinstance(document, yaml.SequenceNode):
        yield from (one for one in document.value if _is_monitor(_fields(one)))
        return
    fields = _fields(document)
    if not in_list:
        for item in _items(fields.get("items")):
            yield None
            yield from _entries(item, in_list=True)
    if _is_monitor(fields):
        yield document
        return
    for name in _LISTS:
        yield from _items(fields.get(name))
    yield from _alarms_of_stack(fields.get("Resources"))
    for group in _groups(fields):
        yield None
        yield from (one for one in _items(_fields(group).get("rules")) if _is_rule(_fields(one)))


def _alarms_of_stack(resources: yaml.Node | None) -> Iterator[yaml.Node]:
    """The properties of a CloudFormation template's alarms; one without a plain name has its logical id."""
    for logical_id, resource in _fields(resources).items():
        fields = _fields(resource)
        if _text(fields.get("Type")) in _ALARM_TYPES and isinstance(
            properties := fields.get("Properties"), yaml.MappingNode
        ):
            given = _fields(properties)
            named = "${" not in _text(given.get("AlarmName")) and bool(_text(given.get("AlarmName")))
            own = [] if named else [(yaml.ScalarNode("", "alert"), yaml.ScalarNode("", logical_id))]
            made = yaml.MappingNode("", [*own, *properties.value])
            made.start_mark = properties.start_mark
            yield made


def _groups(fields: Mapping[str, yaml.Node]) -> Iterator[yaml.Node]:
    """Groups of rules of a document: in one list, or in a list per namespace."""
    for around in (fields, _fields(fields.get("spec")), _fields(fields.get("data"))):
        if "groups" in around:
            yield from _items(around["groups"])
            return
    for value in fields.values():
        for group in _items(value)[:MAX_VISITED]:
            if "rules" not in _fields(group):
                break
            yield group


def _is_rule(fields: Mapping[str, yaml.Node]) -> bool:
    """True if an entry of a group is an alerting rule, even one without a name."""
    if "record" in fields or _text(fields.get("type")) == "recording":
        return False
    return not fields.keys().isdisjoint(("alert", "annotations", "expr", "query", "grafana_alert", "condition"))


def _is_monitor(fields: Mapping[str, yaml.Node]) -> bool:
    """True if an entry outside of a list of rules has the fields of a Prometheus, Grafana API or Datadog rule."""
    return any(names <= fields.keys() for names in _MONITORS)


def _is_pure(document: yaml.Node, *, in_list: bool = False) -> bool:
    """True if a document has nothing but rules. A list `alerts` may hold anything, so it doesn't count."""
    if isinstance(document, yaml.SequenceNode):
        return all(_is_monitor(_fields(one)) for one in document.value)
    fields = _fields(document)
    if "items" in fields and not in_list:
        return all(_is_pure(item, in_list=True) for item in _items(fields["items"]))
    return _is_monitor(fields) or any(
        name in around
        for around in (fields, _fields(fields.get("spec")), _fields(fields.get("data")))
        for name in ("groups", "MetricAlarms", "CompositeAlarms")
    )


class _Reading:
    """Reads rule entries one by one."""

    def __init__(self) -> None:
        self.rules: list[AlertRule] = []
        self.problems: list[str] = []
        self._fired: set[tuple[str, str, str]] = set()

    def read(self, node: yaml.Node, line: int = 0) -> None:
        fields = _fields(node)
        if not fields or "record" in fields:
            return
        line = line or (node.start_mark.line + 1 if node.start_mark else 0)
        grafana = _fields(fields.get("grafana_alert"))
        names = ("alert", "AlarmName", "title", "name")
        name = first(_text(part.get(key)) for part in (fields, grafana) for key in names)
        name = name or _text(_fields(fields.get("labels")).get("alertname"))
        if name and _TEMPLATED.search(name):
            self._leave_out(f"line {line}: the name {name[:60]!r} is a template: the rule is left out")
        elif name:
            self._add(_rule(name, line, fields), fired="startsAt" in fields)
        else:
            where = f"line {line}" if line else f"the rule after {self.rules[-1].name!r}" if self.rules else "a rule"
            self._leave_out(f"{where}: a rule without a name is left out")

    def _add(self, rule: AlertRule, *, fired: bool) -> None:
        """Adds a rule; of alerts that fired, each kind once."""
        kind = (rule.name, rule.severity, rule.runbook)
        if not (fired and kind in self._fired):
            self.rules.append(rule)
        self._fired.add(kind)

    def _leave_out(self, problem: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem)


def _rule(name: str, line: int, fields: Mapping[str, yaml.Node]) -> AlertRule:
    labels, annotations = _fields(fields.get("labels")), _fields(fields.get("annotations"))
    parts = (annotations, labels, fields)
    severity = _text(labels.get("severity")) or _text(fields.get("severity"))
    summary = first(_text(part.get(key)) for key in _SUMMARY_KEYS for part in parts)
    summaries = "\n".join(_text(part.get(key)) for part in (annotations, fields) for key in _SUMMARY_KEYS)
    given = {"severity": severity, **{key: _text(one) for key, one in labels.items()}}
    constant = {key: text for key, text in given.items() if 0 < len(text) <= _MAX_LABEL and "{{" not in text}
    return AlertRule(
        name=name,
        line=line,
        severity=severity,
        summary=summary,
        expr=first(_text(fields.get(key)) for key in _EXPR_KEYS),
        runbook=first(_text(part.get(key)) for part in parts for key in RUNBOOK_KEYS) or _address_in(summaries, fields),
        labels=dict(list(constant.items())[:_MAX_LABELS]),
        owner=_text(fields.get("owner")),
    )


def _address_in(text: str, fields: Mapping[str, yaml.Node]) -> str:
    """The address in `text` that its line calls a runbook, else the path of a page right after such a word. Alarms and
    monitors have no other field for a runbook: for them the first address is the fallback."""
    found = ""
    for line in text.splitlines():
        end = 0
        for match in _ADDRESS.finditer(line):
            address = match[0].rstrip(".,;:!?*_]}")
            while address.endswith(")") and address.count(")") > address.count("("):
                address = address[:-1].rstrip(".,;:!?*_]}")
            if _CALLED.search(_CALLED_PATH.sub("", line[end : match.start()])) or _CALLED.search(address):
                return address
            found, end = found or address, match.end()
    if path := _CALLED_PATH.search(text):
        return path[1]
    return found if "AlarmName" in fields or "message" in fields else ""


_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"


def _fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """The fields of a mapping, with those that `<<` merges into it."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    own = {key.value: value for key, value in pairs if isinstance(key, yaml.ScalarNode)}
    merged = next((value for key, value in pairs if key.tag == _MERGE), None)
    if merged is None:
        return own
    others = [merged, *_items(merged)][:_MAX_LABELS]
    further = (pair for other in reversed(others) if isinstance(other, yaml.MappingNode) for pair in other.value)
    return {key.value: value for key, value in further if isinstance(key, yaml.ScalarNode)} | own


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value).strip() if isinstance(node, yaml.ScalarNode) and node.tag != _NULL else ""


def first(texts: Iterable[str]) -> str:
    return next((text for text in texts if text), "")


NOTE = (
    "a template and no YAML: its alerts are read line by line; render it first (`helm template`) for all that they say"
)

_RULE = re.compile(r"^(?P<indent>[ \t]*)-[ \t]+alert:[ \t]*(?P<name>.*)$")
_FIELD = re.compile(
    r"^[ \t]+(?P<name>severity|summary|description|runbook_url|runbook|message|expr):[ \t]*(?P<value>[^|>\s].*)$"
)
_QUOTES = "\"'` "


def rules_by_line(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """The line and the fields of each rule that begins with `- alert: NAME`: those whose value is on their line."""
    fields: dict[str, str] = {}
    line_of = 0
    for number, line in enumerate(text.splitlines(), start=1):
        if rule := _RULE.match(line):
            if fields:
                yield line_of, fields
            line_of, fields = number, {"alert": rule["name"].strip(_QUOTES)}
        elif fields and (field := _FIELD.match(line)):
            fields.setdefault(field["name"], field["value"].strip(_QUOTES))
    if fields:
        yield line_of, fields
