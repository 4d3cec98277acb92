"""Extracts operational edges: alerts of runbooks and rule files, causes of incidents, and changed files of commits.

Only forms that such pages have in common are recognised; ambiguous names don't count as alerts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from opx.domain.documents import DocumentChunk, Remark, RemarkKind
from opx.domain.graph import EdgeStatement, NodeStatement, Value
from opx.domain.knowledge import ALERT_RULES_CATEGORY as CATEGORY
from opx.domain.knowledge import Tier
from opx.domain.record import replace
from opx.formats.data.alert_rules import HINTS, MAX_BYTES, AlertRule, UnreadableRulesError, first, read_rules
from opx.graph.extraction.material import MAX_NODES, Findings, Material
from opx.graph.extraction.own_node import (
    is_alert_name,
    make_reference,
    named_node,
    reference_of_identifier,
    runbook_at,
    value_of,
)
from opx.hygiene.secrets import mask
from opx.text.procedures.alerts import RULE, RUNBOOK, WHEN

MAX_LINE = 2_000

_QUOTED = r"`([A-Za-z][A-Za-z0-9_-]{2,99}?)(?:-<[\w -]{1,40}>)?`"
_NAME = re.compile(rf"{_QUOTED}(:)?")
_LABEL = re.compile(r"[\s>|*_-]*Al(?:ert|arm)s?\b[*_]*(?:\s*\([^()]*\))?[\s:.|*_]*(?=`|\Z)")
_DIRECT = re.compile(rf"\b[Aa]l(?:ert|arm)s?[*_]{{0,3}}:?[*_]{{0,3}}\s{{1,3}}{_QUOTED}")
_PLAIN_NAME = r"[A-Za-z][A-Za-z0-9_-]{2,99}"
_PLAIN = re.compile(
    r"[\s>|*_-]*Al(?:ert|arm)(?:s|[ ]?names?)?[*_]*\s*:[\s*_]*"
    rf"({_PLAIN_NAME}(?:\s*(?:,|/|\band|\bor)\s*{_PLAIN_NAME}){{0,20}})(?=\s*(?:[.,;|*(]|\bfires\b|\bis firing\b|\Z))"
)
"""`Alert: EtcdNoSpace`: names without quotes, and nothing else up to the next punctuation."""
_PARENTHESES = re.compile(r"\([^()]*\)")
_TABLE = re.compile(r"\s*\|[\s*]*Al(?:ert|arm)s?(?: name)?[\s*]*\|")
_ITEM = re.compile(r"\s*(?:[-*+]\s|\|)")
_HEADING = re.compile(r"#[ \t]+(\S[^\n]{0,200})")
_SECTION = re.compile(r"^#{2,6}[ \t]+(\S[^\n]{0,200})$", re.MULTILINE)
_CALLED = re.compile(r"\A\s*(?:(?:alert|alarm|runbook|playbook)\s*[:\u2013\u2014-]\s*)+", re.IGNORECASE)
_SUFFIX = re.compile(r"\s+(?:alert|alarm|runbook|playbook)\Z", re.IGNORECASE)
_ENDING = re.compile(r"\s\(`?([A-Za-z0-9_-]{3,100})`?\)\s*\Z|(?:\s[\u2013\u2014-]|:)\s+`?([A-Za-z0-9_-]{3,100})`?\s*\Z")
_BY_TITLE = 0.75
"""Confidence of the title alone, on a page that doesn't speak of alerts: below `STATED`."""

_RESPONSE = re.compile(
    r"^#{1,4}[ \t]+(?:meaning|impact|diagnos[ei]s|mitigation|symptoms?|severity|resolution|remediation|troubleshooting|"
    r"triage)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""Headings of pages about something that fails: the title of such a page that looks like an alert's name is one."""
_SPOKEN = re.compile(
    r"\b[Aa]l(?:ert|arm)[ \t]+(?:(?:named|called)[ \t]+)?([A-Z][A-Za-z0-9]{4,99})\b(?![ \t]*(?:alert|/|\())"
    r"|(?<![`\w/.-])([A-Z][A-Za-z0-9]{4,99})[ \t]+(?:alert|alarm|fires|fired|is[ \t]+firing)\b"
)
_ACRONYMS = re.compile(r"[A-Z]+s")
"""Acronyms in the plural: `APIs`."""

_NO_ALERTS = (
    "alertmanager cloudflare cloudwatch datadog github gitlab grafanalabs javascript jboss mysql newrelic nodejs opsgenie "
    "openshift openstack pagerduty postgresql prometheusrule rabbitmq servicenow sitescope splunk stackdriver statuspage "
    "victorops virtualbox vmware whatsapp youtube zabbix configmap statefulset daemonset replicaset servicemonitor"
)
_PRODUCTS = frozenset(_NO_ALERTS.split())
"""Names in the form of an alert's that stand before the word alert or fire nothing: products, and kinds of Kubernetes."""
_FAMILIES = re.compile(r"(?:Alertmanager|etcd|Etcd|Kube|Kubelet|Node|Prometheus|Thanos)(?:[A-Z][a-z0-9]*){2,30}")
"""Names in the form of common Prometheus rules (kubernetes-mixin, node-mixin and similar ones)."""

_ID = r"((?:CHG|CHANGE|CRQ|INC|INCIDENT)[-_]?\d{1,12})\b"
_ANY_ID = re.compile(rf"\b{_ID}", re.IGNORECASE)
_WITH = (
    r"(?:\s+(?:the|a|our|by|change|deployment|release|rollout|rollback|incident|of|with|request)){0,4}\s+[`\[(*]{0,3}"
)
_CAUSED_BY = re.compile(rf"\b(?:caused|triggered|introduced)\s+by{_WITH}{_ID}", re.IGNORECASE)
_CAUSED = re.compile(rf"\b(?:caused|triggered|led\s+to|caused\s+by\s+this){_WITH}{_ID}", re.IGNORECASE)
_ENDED_BY = re.compile(rf"\b(?:fixed|resolved|mitigated|ended|repaired)\s+(?:by|with|in){_WITH}{_ID}", re.IGNORECASE)
_ENDS = re.compile(rf"\b(?:fixes|resolves|mitigates|ends|remediates){_WITH}{_ID}", re.IGNORECASE)


# -- runbooks


def tagged_alerts(material: Material, findings: Findings) -> None:
    """A document rule: tags of a runbook that are names of common alerts. Other words in CamelCase are as often metrics,
    errors or states."""
    if material.own.startswith("runbook:"):
        for tag in material.document.tags:
            if len(tag) <= 100 and _FAMILIES.fullmatch(tag):
                _handles(material, tag, (), findings, confidence=0.8)


def handled_alerts(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: the alert in a runbook's title, those in headings and lists, and without such a title also those that the
    text calls alerts. Alerts that the text names without quotes are mentioned, not handled."""
    if not material.own.startswith("runbook:"):
        return
    speaks = any(word in chunk.content for word in ("lert", "larm", "fires", "firing"))
    responds = speaks or bool(_RESPONSE.search(chunk.content))
    headlines = [name for name in dict.fromkeys(_headlines(chunk)) if responds or _FAMILIES.fullmatch(name)]
    where = (chunk.chunk_id,)
    if chunk.chunk_index == 0:
        for name in headlines:
            sure = speaks or _FAMILIES.fullmatch(name)
            _handles(material, name, where, findings, confidence=0.9 if sure else _BY_TITLE)
    if not speaks:
        return
    named_after = (
        bool(set(headlines) - set(map(alert_in_heading, chunk.section[:1]))) or alert_in_heading(chunk.title) != ""
    )
    listed = dict.fromkeys(_listed(chunk.content, named_after=named_after))
    for name in listed:
        _handles(material, name, where, findings)
    if named_after:
        return
    sections = dict.fromkeys(name for name in _section_names(chunk.content) if name not in listed)
    for name in sections:
        _handles(material, name, where, findings, confidence=0.9)
    for name in dict.fromkeys(_spoken(chunk.content)):
        if name not in listed and name not in sections:
            _mentions(material, name, where, findings)


def _section_names(text: str) -> Iterator[str]:
    """Alerts in headings: `## KafkaLag`, `### Alert: KafkaLag`, `## Consumers lag (KafkaLag)`."""
    return filter(None, (alert_in_heading(match[1]) for match in _SECTION.finditer(text)))


def alert_in_heading(heading: str) -> str:
    """The name of the alert that a heading or title consists of, or ends with; "" for none."""
    text = _CALLED.sub("", heading.strip().rstrip("#").strip())
    name = _SUFFIX.sub("", text).strip("`* ")
    if not _is_name(name):
        match = _ENDING.search(text)
        name = (match[1] or match[2]) if match else ""
    return name if _is_name(name) else ""


def _is_name(text: str) -> bool:
    return is_alert_name(text) and not _ACRONYMS.fullmatch(text)


def _spoken(text: str) -> Iterator[str]:
    """Names that prose calls alerts, without quotes: `the KafkaLag alert`, `alert KafkaLag`, `KafkaLag fires`."""
    for line in text.splitlines():
        if len(line) > MAX_LINE:
            continue
        for match in _SPOKEN.finditer(line):
            name = match[1] or match[2]
            if _is_name(name) and name.casefold() not in _PRODUCTS:
                yield name


def _listed(text: str, *, named_after: bool) -> Iterator[str]:
    """Names on lines that begin with `Alerts`, in the list or table below such a line, and directly after the word."""
    listing = False
    for line in text.splitlines():
        if len(line) > MAX_LINE:
            continue
        begins = bool(_LABEL.match(line) or _TABLE.match(line))
        if begins or (listing and _ITEM.match(line)):
            yield from _names(line, only_first=listing)
        elif plain := _PLAIN.match(line):
            yield from filter(is_alert_name, re.findall(_PLAIN_NAME, plain[1]))
        elif not named_after:
            yield from filter(is_alert_name, _DIRECT.findall(line))
        listing = begins or (listing and (not line.strip() or bool(_ITEM.match(line))))


def _names(line: str, *, only_first: bool) -> Iterator[str]:
    """Names up to the one whose expression follows, without parentheses, which have metrics and the like; of list items and
    table rows, only the first."""
    if only_first:
        line = line.strip(" \t|*-+").partition("|")[0]
        line = line if line.startswith("`") else ""
    for match in _NAME.finditer(_PARENTHESES.sub("", _PARENTHESES.sub("", line))):
        if is_alert_name(match[1]):
            yield match[1]
        if match[2] or only_first:
            return


def _headlines(chunk: DocumentChunk) -> Iterator[str]:
    yield from filter(None, map(alert_in_heading, (chunk.title, *chunk.section[:1])))
    for line in chunk.content[:MAX_LINE].splitlines()[:3]:
        if match := _HEADING.fullmatch(line):
            yield from filter(None, [alert_in_heading(match[1])])


def _handles(
    material: Material, name: str, chunk_ids: tuple[str, ...], findings: Findings, *, confidence: float = 1.0
) -> None:
    key = make_reference("alert", name)
    findings.add(
        named_node(name, key, chunk_ids),
        EdgeStatement(material.own, "handles", key, chunk_ids, rule="alerts", confidence=confidence),
    )


def _mentions(material: Material, name: str, chunk_ids: tuple[str, ...], findings: Findings) -> None:
    key = make_reference("alert", name)
    findings.add(
        named_node(name, key, chunk_ids),
        EdgeStatement(material.own, "mentions", key, chunk_ids, rule="alerts", confidence=0.7),
    )


# -- incidents and changes


def causes(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: causes, fixes and mentions of incidents and changes, by their ids in the text of either."""
    kind = material.own.partition(":")[0]
    if kind not in ("incident", "change") or not _ANY_ID.search(chunk.content):
        return
    edges = _CauseEdges(material.own, (chunk.chunk_id,), findings)
    for pattern, wanted, edge, inward in _PHRASES[kind]:
        for match in pattern.finditer(chunk.content):
            edges.state(match[1], wanted, edge, inward=inward)
    for match in _ANY_ID.finditer(chunk.content):
        edges.mention(match[1])


_PHRASES = {
    "incident": ((_CAUSED_BY, "change", "caused", True), (_ENDED_BY, "change", "resolved_by", False)),
    "change": ((_CAUSED, "incident", "caused", False), (_ENDS, "incident", "resolved_by", True)),
}
"""By the type of the own node: phrase, type of the named node, edge type, and true for edges that lead to the own node."""


class _CauseEdges:
    """Adds edges between the page's own node and others in one passage; a mention only where there is no other edge."""

    def __init__(self, own: str, chunk_ids: tuple[str, ...], findings: Findings) -> None:
        self._own = own
        self._chunk_ids = chunk_ids
        self._findings = findings
        self._known = {own}

    def state(self, text: str, wanted: str, edge: str, *, inward: bool) -> None:
        key = reference_of_identifier(text)
        if key.startswith(f"{wanted}:") and key not in self._known:
            self._known.add(key)
            source, target = (key, self._own) if inward else (self._own, key)
            self._add(text, key, EdgeStatement(source, edge, target, self._chunk_ids, rule="causes", confidence=0.9))

    def mention(self, text: str) -> None:
        key = reference_of_identifier(text)
        if key not in self._known:
            self._known.add(key)
            self._add(text, key, EdgeStatement(self._own, "mentions", key, self._chunk_ids, rule="causes"))

    def _add(self, text: str, key: str, edge: EdgeStatement) -> None:
        if text != value_of(key):
            self._findings.add(named_node(text, key, self._chunk_ids))
        self._findings.add(edge)


# -- alert rules

_YAML = (".yaml", ".yml", ".rules")
_LENGTHS = {"severity": 100, "summary": 500, "expr": 1000, "runbook": 1000, "owner": 100}
_MAX_WHEN = 20


def alerts_of_rules(material: Material, findings: Findings) -> None:
    """A document rule: the alerts that a rule file defines, and runbook -[handles]-> alert where it names a runbook."""
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
    _state_all(found.rules[: MAX_NODES + 1], findings)  # one more than the limit, so that a remark is added


def _state_all(rules: Sequence[AlertRule], findings: Findings) -> None:
    of_alert: dict[str, list[AlertRule]] = {}
    for rule in rules:
        key = make_reference("alert", rule.name)
        if key:
            of_alert.setdefault(key, []).append(rule)
        else:
            _remark(findings, f"line {rule.line}: {rule.name[:60]!r} is not the name of an alert")
    for key, own in of_alert.items():
        _state(key, own, findings)


def _state(key: str, rules: Sequence[AlertRule], findings: Findings) -> None:
    """Add one alert. Several rules may define it, each with its own severity and runbook."""
    about = {name: first(getattr(rule, name) for rule in rules) for name in ("summary", "expr", "runbook", "owner")}
    about["severity"] = ", ".join(dict.fromkeys(rule.severity for rule in rules if rule.severity))
    texts = {name: _line(text)[: _LENGTHS[name]] for name, text in about.items() if text}
    statement = named_node(_line(rules[0].name), key, declared=True)
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
    """The text as one line without secrets."""
    return " ".join(mask(text)[0].split())


def _remark(findings: Findings, text: str) -> None:
    findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, text))


# -- commits

COMMIT_RULE = "commit"

_PAGE = re.compile(
    r"https?://(?P<host>[\w.:-]+)/(?P<repository>[\w.-]+(?:/[\w.-]+)+?)/(?:-/)?commits?/[0-9a-f]{7,64}/?\Z"
)
"""Addresses of commits: of GitHub, GitLab and others with the same form."""

_ISSUE = re.compile(
    r"(?P<verb>\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+)?"
    r"(?<![\w/.-])(?P<repository>[\w.-]+(?:/[\w.-]+)+)?(?P<mark>[#!])(?P<number>[1-9]\d{0,8})(?![\w-])",
    re.IGNORECASE,
)
"""The verbs are those that close an issue (GitHub Docs, "Linking a pull request to an issue"); `!` is a merge request of
GitLab ("GitLab-specific references")."""

_FILE = re.compile(
    r"^- `(?P<path>[^`\n]+)`(?: \(\+(?P<added>\d+), -(?P<removed>\d+)\))?(?:, (?P<kind>\w+))?$", re.MULTILINE
)


def author(material: Material, findings: Findings) -> None:
    """A document rule: user -creates-> commit."""
    name = material.document.author
    key = make_reference("user", name) if _is_commit(material) else ""
    if key:
        findings.add(
            NodeStatement(key, "user", {"name": name}), EdgeStatement(key, "creates", material.own, rule=COMMIT_RULE)
        )


def changes(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """A chunk rule: commit -modifies-> file with the kind of change, and commit -fixes-> or -references-> issues."""
    if not _is_commit(material):
        return
    for match in _FILE.finditer(chunk.content):
        key = make_reference("file", match["path"])
        if key:
            where = (chunk.chunk_id,)
            findings.add(
                EdgeStatement(material.own, "modifies", key, where, rule=COMMIT_RULE, properties=_changed(match))
            )
    page = _PAGE.match(material.document.source_uri)
    if page:
        _issues(material, chunk, findings, page)


def _issues(material: Material, chunk: DocumentChunk, findings: Findings, page: re.Match[str]) -> None:
    forge = "github" if page["host"] == "github.com" else "gitlab"
    for match in _ISSUE.finditer(chunk.content):
        if match["mark"] == "!" and forge == "github":
            continue
        repository = match["repository"] or page["repository"]
        key = make_reference(forge, f"{repository}{match['mark']}{match['number']}")
        if key:
            kind = "fixes" if match["verb"] else "references"
            findings.add(EdgeStatement(material.own, kind, key, (chunk.chunk_id,), rule=COMMIT_RULE, confidence=0.9))


def _changed(match: re.Match[str]) -> dict[str, Value]:
    found: dict[str, Value] = {"change": match["kind"] or "modify"}
    if match["added"]:
        found |= {"added": int(match["added"]), "removed": int(match["removed"])}
    return found


def _is_commit(material: Material) -> bool:
    return material.own.startswith("commit:")
