"""Parses pasted alerts to a name, labels and text, and fills the placeholders of commands with the labels.

Formats: the JSON that Alertmanager, Grafana, CloudWatch, PagerDuty, Datadog and Opsgenie send, lines such as `[FIRING:1]
HighLatency (service="checkout" pod="web-1")` and `HighLatency{pod="web-1"}`, and `name=value` pairs; anything else is the
alert's name or its text."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import field

from opx.domain.handover import ShownCommand
from opx.domain.procedures import Command
from opx.domain.record import Record
from opx.domain.resources import kind_of_field, workload_of
from opx.errors import InvalidInputError

MAX_LABELS = 100
MAX_VALUE = 500
_MAX_TEXT = 20_000
_MAX_ALERTS = 1000
_MAX_DEPTH = 20
_MAX_NAMED = 5
"""Labels, values and alerts that a note names."""

_PAIR = re.compile(
    r"([A-Za-z_][\w.-]{0,99})\s*=\s*(?:\"((?:[^\"\\]|\\.){0,500})\"|'([^']{0,500})'|([^\s,;(){}\"']{1,500}))"
)
_NESTED = 6
_VALUES = re.compile(r"([A-Za-z][\w:.-]{2,149}) \(([^()=\n]{1,2000})\)")
_IS_HOST = re.compile(r"[\w.-]*[A-Za-z][\w.-]*:\d{2,5}")
_IS_POD = re.compile(
    r"[a-z][a-z0-9-]*-[0-9a-f]{8,10}-[a-z0-9]{5}|[a-z][a-z0-9-]*-(?=[a-z0-9]*\d)[bcdf-hj-np-tv-xz2-9]{5}"
)
_BRACKETS = re.compile(r"\A(?:\{[^}\n]*\}|\([^)\n]*\))")
_JSON_BEGINS = re.compile(r"\s*(?:\[\s*)?\{(?!\s*(?:\{|[\w.]+\s*(?:=|!=|=~|!~)))")
"""The beginning of a JSON object, also of a malformed one: neither labels such as `{namespace="prod"}` nor a template."""
_FIRING = re.compile(
    r"\s*\[(?:FIRING|RESOLVED|ALERT|CRITICAL|WARNING|PROBLEM|Prometheus|Grafana|Triggered|Recovered)[^\]]{0,20}\]:?\s*",
    re.IGNORECASE,
)
_LISTED = re.compile(r"[ \t]*-?[ \t]*([A-Za-z_]\w{0,99}) = (\S[^\n]{0,499})", re.ASCII)
"""A label as templates of notifications write it into their text."""
_FRAME = re.compile(
    r"[ \t]*(?:\*\*(?:Firing|Resolved)\*\*|(?:Labels|Annotations|Value|Metric value|Source|Silence|Dashboard|Panel):.*"
    r"|%%%|@\S+)[ \t]*"
)
"""Other lines of such templates."""
_NAME = re.compile(r"[A-Za-z][\w:.-]{2,149}")
_NAME_KEYS = (
    "alertname",
    "alert",
    "AlarmName",
    "alarmName",
    "alert_title",
    "rulename",
    "ruleName",
    "title",
    "name",
    "summary",
    "message",
)
_LABEL_KEYS = (
    "groupLabels",
    "commonLabels",
    "labels",
    "Dimensions",
    "dimensions",
    "tags",
    "details",
    "custom_details",
    "Trigger",
)
_SHARED_KEYS = ("commonLabels", "groupLabels", "commonAnnotations")
_TEXT_KEYS = ("summary", "description", "message", "body", "NewStateReason", "AlarmDescription", "reason")
_PARTS = ("detail", "alarm", "alert", "event", "payload", "data", "state", "configuration", "metricStat", "metric")
"""Objects within an event that may describe the alert."""
STATED = 0.8
"""Least confidence of an edge from a page that states that it handles an alert; a title alone has less."""

RUNBOOK_KEYS = ("runbook_url", "runbook", "runbookUrl", "runbook_link", "playbook")

RULE = "alert rule"
"""Category of the graph's statements from a file of alerting rules."""
RUNBOOK = "runbook"
"""The property of an alert, and of its relation to a runbook, with the address or the path that a rule names."""
WHEN = "when"
"""The property of such a relation with the labels of each rule that names the runbook, as a JSON list of objects."""


class Alert(Record, frozen=True, omit_defaults=True):
    """An alert. `text` is its description beside its name, for search; `runbook` is the address or name of its runbook, if
    it has one. `notes` are for the reader, on a notification with several alerts."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    text: str = ""
    runbook: str = ""
    notes: tuple[str, ...] = ()


def read_alert(text: str, labels: str = "") -> Alert:
    """Parses an alert, with further labels: a JSON object or `name=value` pairs. Of several alerts in a notification,
    those with the further labels are selected.

    Raises `InvalidInputError` for labels that are neither, and for an alert without content.
    """
    given = given_labels(labels) if labels.strip() else {}
    data = _json(text)
    if _is_empty(text, data) and "alertname" not in given:
        raise InvalidInputError("the alert is empty: give its name, its labels, or the alert as it was sent")
    found = _from_json(data, given) if isinstance(data, Mapping) else _from_line(text[:_MAX_TEXT])
    merged = _bounded({**found.labels, **given})
    name = found.name or given.get("alertname", "") or text.strip()[:MAX_VALUE]
    runbook = found.runbook or next((merged[key] for key in RUNBOOK_KEYS if merged.get(key)), "")
    return Alert(name, merged, found.text, runbook, found.notes)


def given_labels(labels: str) -> dict[str, str]:
    """Parses labels from a JSON object or `name=value` pairs. Raises `InvalidInputError` for anything else."""
    data = _json(labels)
    found = _texts(data) if isinstance(data, Mapping) else dict(_pairs(labels[:_MAX_TEXT]))
    is_broken = labels.lstrip().startswith(('{"', "[")) and not isinstance(data, Mapping)
    if is_broken or (not found and not isinstance(data, Mapping)):
        raise InvalidInputError(
            f'labels are a JSON object such as {{"namespace": "prod"}}, or pairs such as namespace=prod, pod=web-1; '
            f"this is neither: {labels.strip()[:80]!r}"
        )
    return found


def json_error(text: str) -> str:
    """The position and reason of the error in an alert that begins as a JSON object does and isn't one, as when only a part
    of it was pasted; "" for any other."""
    if not _JSON_BEGINS.match(text) or _json(text) is not None:
        return ""
    try:
        json.loads(text)
    except json.JSONDecodeError as exc:
        return f"line {exc.lineno}, column {exc.colno}: {exc.msg}"
    except (ValueError, RecursionError):
        return "too deep, or with a number that is too long"
    return ""


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(found, list) and len(found) > 1 and all(isinstance(one, Mapping) for one in found):
        return {"alerts": found}
    first = found[0] if isinstance(found, list) and found else found
    return _in_message(first) if isinstance(first, Mapping) else first


def _in_message(data: Mapping[str, Any]) -> Any:
    """The JSON within an SNS notification, also within a Lambda event of one; other data unchanged."""
    records = data.get("Records")
    record = records[0] if isinstance(records, list) and records and isinstance(records[0], Mapping) else {}
    sns = record.get("Sns", data)
    message = sns.get("Message") if isinstance(sns, Mapping) else None
    carried = _json(message) if isinstance(message, str) else None
    return carried if isinstance(carried, Mapping) else data


def _is_empty(text: str, data: Any) -> bool:
    if data is None:
        return not text.strip().strip("\"'").strip()
    if isinstance(data, Mapping) and "alerts" in data and not _has_content(data["alerts"]):
        return not any(_has_content(data.get(key)) for key in (*_SHARED_KEYS, *_NAME_KEYS))
    return not _has_content(data)


def _has_content(value: Any, depth: int = 0) -> bool:
    if isinstance(value, Mapping | list):
        inner = value.values() if isinstance(value, Mapping) else value
        return any(depth > _MAX_DEPTH or _has_content(one, depth + 1) for one in inner)
    return value is not None and value != ""


def _from_json(data: Mapping[str, Any], given: Mapping[str, str]) -> Alert:
    alerts, notes = _chosen(data, given)
    parts = [*_parts_of(data), *(part for one in alerts[:1] for part in _parts_of(one.data))]
    labels = _labels_of(_parts_of(data))
    for name in [name for name in labels if any(one.labels.get(name, labels[name]) != labels[name] for one in alerts)]:
        del labels[name]
    labels |= _shared([one.labels for one in alerts])
    owners = {workload_of(one.labels.get("pod", "")) for one in alerts}
    if "pod" not in labels and len(owners) == 1 and all(owners):  # its pods fire together
        labels["workload"] = owners.pop()
    annotations = _texts(data.get("commonAnnotations"))
    for first in alerts[:1]:
        annotations |= _texts(first.data.get("annotations"))
    annotations |= _texts(data.get("annotations"))
    for text in _written(parts):
        labels = dict(_stated_in(text)) | labels
    named = [
        labels.get("alertname", ""),
        *(one.labels.get("alertname", "") for one in alerts),
        *_names_in(parts),
    ]
    name = next((one for one in named if one.strip()), "")
    texts = [
        annotations.get(key, "") or next((str(part[key]) for part in parts if isinstance(part.get(key), str)), "")
        for key in _TEXT_KEYS
    ]
    runbook = next((one for key in RUNBOOK_KEYS if (one := annotations.get(key) or labels.get(key) or "")), "")
    text = " ".join(dict.fromkeys(filter(None, map(_prose, texts))))
    return Alert(*_split_name(name, labels), text, runbook, (*notes, *_runbook_notes(alerts)))


def _parts_of(data: Mapping[str, Any], depth: int = 0) -> list[Mapping[str, Any]]:
    """An event and the nested objects that may describe the alert."""
    metrics = data.get("metrics")
    inner = [*(data.get(key) for key in _PARTS), *(metrics[:_MAX_NAMED] if isinstance(metrics, list) else ())]
    nested = (part for part in inner if isinstance(part, Mapping) and depth < _NESTED)
    return [data, *(each for part in nested for each in _parts_of(part, depth + 1))]


def _names_in(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    return (part[key] for part in parts for key in _NAME_KEYS if isinstance(part.get(key), str))


def _written(parts: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """The texts of an event and of its details, in which a template may have listed labels."""
    for part in parts:
        details = (part.get(key) for key in ("details", "custom_details"))
        for each in (part, *(one for one in details if isinstance(one, Mapping))):
            yield from (text for text in each.values() if isinstance(text, str) and " = " in text)


def _stated_in(text: str) -> Iterator[tuple[str, str]]:
    """The labels in lines of their own, without annotations."""
    found = (_LISTED.fullmatch(line) for line in text[:_MAX_TEXT].splitlines())
    return ((match[1], match[2].strip()) for match in found if match and match[1] not in _TEXT_KEYS)


def _prose(text: str) -> str:
    """The description without the labels and the frame of a template; of annotations their values."""
    kept = []
    for line in _FIRING.sub("", text[:_MAX_TEXT]).splitlines():
        listed = _LISTED.fullmatch(line)
        if listed and listed[1] in _TEXT_KEYS:
            kept.append(listed[2])
        elif not (listed or _FRAME.fullmatch(line) or _PAIR.fullmatch(line.strip(" \t*-,"))):
            kept.append(line)
    return "\n".join(kept).strip()


def _split_name(name: str, labels: dict[str, str]) -> tuple[str, dict[str, str]]:
    """The name of an alert without its state, and its labels. Alertmanager's own titles have the labels' values in brackets
    behind it, of which only those of pods and hosts can be recognised."""
    name = _FIRING.sub("", name).strip()
    match = _VALUES.fullmatch(name)
    if not match:
        return name, labels
    values = match[2].split()
    pods = [one for one in values if (workload_of(one) != one and workload_of(one) in values) or _IS_POD.fullmatch(one)]
    hosts = [one for one in values if _IS_HOST.fullmatch(one)]
    found = {"pod": pods[0]} if pods else {"instance": hosts[0]} if hosts else {}
    return match[1], found | labels


def _labels_of(parts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in parts:
        for key in _LABEL_KEYS:
            labels.update(_labels(part.get(key)))
    return labels


# -- several alerts in one notification


class _OneOf(Record, frozen=True):
    """One alert of a notification."""

    data: Mapping[str, Any]
    name: str
    labels: dict[str, str]
    is_over: bool


def _one_of(data: Mapping[str, Any]) -> _OneOf:
    parts = _parts_of(data)
    labels = _labels_of(parts)
    status = data.get("status", data.get("state", ""))
    state = status.get("state", "") if isinstance(status, Mapping) else status
    return _OneOf(data, labels.get("alertname") or next(_names_in(parts), ""), labels, str(state).lower() in _OVER)


def _chosen(data: Mapping[str, Any], given: Mapping[str, str]) -> tuple[list[_OneOf], list[str]]:
    """Selects the alerts of a notification, with notes on the others: those that fire, else all; of these the ones with
    the given labels, and with the name of the first."""
    listed = data.get("alerts")
    everyone = [
        _one_of(one) for one in (listed[:_MAX_ALERTS] if isinstance(listed, list) else ()) if isinstance(one, Mapping)
    ]
    if not everyone:
        return [], []
    firing = [one for one in everyone if not one.is_over]
    fitting = ([one for one in group if _fits(one, given)] for group in (firing, everyone))
    counted = next(filter(None, fitting), firing or everyone)
    own_name = given.get("alertname") or next((one.name for one in counted if one.name), "")
    alerts = [one for one in counted if one.name in ("", own_name)] or counted
    others = dict.fromkeys(one.name for one in firing or everyone if one.name not in ("", own_name))
    notes = []
    over = all(one.is_over for one in alerts)
    if not firing:
        many = f"all {len(everyone)} alerts" if len(everyone) > 1 else "the alert"
        notes.append(f"{many} of this notification {'are' if len(everyone) > 1 else 'is'} resolved")
    elif over:
        notes.append("the alert with these labels is resolved; others of this notification are firing")
    notes += _difference(alerts, given, "are resolved" if over else "are firing")
    if others:
        notes.append(f"{'also firing' if firing else 'also in it'}: {_listed(list(others))}: ask for each")
    return alerts, notes


_OVER = frozenset(["resolved", "inactive", "normal", "ok", "closed"])


def _fits(alert: _OneOf, given: Mapping[str, str]) -> bool:
    return all(alert.labels.get(name, value) == value for name, value in given.items())


def _shared(mappings: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The entries that all mappings have."""
    first = mappings[0] if mappings else {}
    return {name: value for name, value in first.items() if all(one.get(name) == value for one in mappings)}


def _difference(alerts: Sequence[_OneOf], given: Mapping[str, str], are: str) -> Iterator[str]:
    """A note on labels in which the alerts differ, apart from the given ones."""
    shared = _shared([one.labels for one in alerts])
    names = dict.fromkeys(name for one in alerts for name in one.labels if name not in (*shared, *given))
    differing = [
        f"{name} ({_listed(list(dict.fromkeys(one.labels.get(name, 'none')[:100] for one in alerts)))})"
        for name in names
    ]
    if differing:
        not_filled = "which is not filled in" if len(differing) == 1 else "which are not filled in"
        yield f"{len(alerts)} alerts {are}; they differ in {_listed(differing)}, {not_filled}"


def _runbook_notes(alerts: Sequence[_OneOf]) -> Iterator[str]:
    annotations = [_texts(one.data.get("annotations")) for one in alerts]
    named = dict.fromkeys(one[key] for key in RUNBOOK_KEYS for one in annotations if one.get(key))
    first = next((annotations[0][key] for key in RUNBOOK_KEYS if annotations[0].get(key)), "") if annotations else ""
    if others := [one for one in named if one != first]:
        yield f"other alerts of this notification name another runbook: {_listed(others)}"


def _listed(texts: Sequence[str]) -> str:
    left = len(texts) - _MAX_NAMED
    return ", ".join(" ".join(one.split()) for one in texts[:_MAX_NAMED]) + (f" and {left} more" if left > 0 else "")


# -- fields


def _labels(value: Any) -> dict[str, str]:
    """Labels as a mapping, as a list of names with values (CloudWatch), or as a list of `name:value` (Datadog)."""
    if isinstance(value, Mapping):
        nested = _labels(value.get("Dimensions")) if "Dimensions" in value else {}
        return _texts(value) | nested
    found: dict[str, str] = {}
    value = value.split(",") if isinstance(value, str) else value  # Datadog sends its tags as one string, too
    for one in value[:MAX_LABELS] if isinstance(value, list) else ():
        if isinstance(one, Mapping):
            name, given = one.get("name") or one.get("Name"), one.get("value") or one.get("Value")
            if isinstance(name, str) and isinstance(given, str | int | float):
                found[name] = str(given)[:MAX_VALUE]
        elif isinstance(one, str) and ":" in one[:MAX_VALUE]:
            name, _, given = one.partition(":")
            found[name.strip()] = given.strip()[:MAX_VALUE]
    return found


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    return _bounded(
        {str(name): str(one)[:MAX_VALUE] for name, one in value.items() if isinstance(one, str | int | float)}
    )


def _bounded(labels: dict[str, str]) -> dict[str, str]:
    """At most `MAX_LABELS` of the labels; of more, those that name a resource first."""
    if len(labels) <= MAX_LABELS:
        return labels
    return dict(sorted(labels.items(), key=lambda one: not kind_of_field(one[0]))[:MAX_LABELS])


def _from_line(text: str) -> Alert:
    text = _FIRING.sub("", text, count=1).strip()
    line, _, rest = text.partition("\n")
    labels = dict(_pairs(text))
    begins = _NAME.match(line)
    behind = line[begins.end() :].lstrip() if begins else ""
    if begins and (behind[:1] in ("{", "(") or (labels and not behind) or (labels and _PAIR.match(behind))):
        name, left = begins[0], _BRACKETS.sub("", behind, count=1)
        labels = labels or _split_name(f"{name} {behind.removesuffix(left)}".rstrip(), {})[1]
    else:
        name = labels.get("alertname") or line
        left = line if name != line else ""
    beside = _PAIR.sub("", left).strip(" \t,;:-")
    return Alert(labels.get("alertname", name)[:MAX_VALUE], labels, f"{beside}\n{_prose(rest)}".strip())


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for number, match in enumerate(_PAIR.finditer(text)):
        if number >= MAX_LABELS:
            return
        value = next((group for group in match.groups()[1:] if group is not None), "")
        if not value.startswith("//"):  # of an address
            yield match[1], value.replace('\\"', '"')


# -- placeholders

_INSIDE = re.compile(r"[A-Za-z][\w. /-]*")
_WORDS = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+")
_HOSTS = ("instance", "host", "hostname", "node", "server", "machine", "node_name", "nodename")
_SAME = (
    ("namespace", "ns", "kubernetes_namespace"),
    ("pod", "pod_name", "kubernetes_pod_name"),
    _HOSTS,
    ("service", "app", "application", "svc", "service_name", "job_name"),
    ("deployment", "deploy", "deployment_name"),
    ("container", "container_name"),
    ("cluster", "cluster_name", "context"),
    ("persistentvolumeclaim", "pvc", "claim", "volume"),
    ("topic", "kafka_topic"),
    ("consumergroup", "group", "consumer_group", "consumer"),
    ("queue", "queue_name", "queuename"),
    ("database", "db", "datname", "dbname", "db_name"),
    ("region", "aws_region", "zone"),
    ("device", "disk", "mountpoint", "mount"),
    ("name", "resource_name"),
)
"""Synonymous names of labels, in other systems and in placeholders."""

_NUMBERED = re.compile(r":\d+\Z")
_SAFE_SQL = re.compile(r"[\w.:@/-]+\Z")
_READ_TWICE = re.compile(
    r"<<|(?<![\w.-])(?:ssh|mosh|pssh|pdsh|eval|su|runuser|watch|xargs|parallel|script|at|batch|ansible|salt|chroot|sh|bash|zsh|ksh|cmd)(?![\w-])"
)
"""Programs that pass words to another shell, which would remove the quotes of this one; and here-documents."""


def filled(
    command: Command | ShownCommand, labels: Mapping[str, str], assigned: Collection[str] = ()
) -> tuple[str, tuple[str, ...]]:
    """Fills a command's placeholders with labels; returns the command and the placeholders that are left.

    `assigned` are variables that the document's own commands set, which are neither. Values are quoted for a shell wherever
    they have other characters than names have. Only values without such characters are filled in within quotes and
    here-documents, in what a second shell reads (`ssh`, `eval`), and in languages without such a rule. Two placeholders with
    different names never get the same label: of `<host>` and `<server>` one would be wrong.
    """
    open_ones = [one for one in command.placeholders if not _is_set(one, command.text, assigned)]
    found = {one: label for one in open_ones if (label := label_for(one, labels))}
    names: defaultdict[str, set[str]] = defaultdict(set)
    for one, (by, _) in found.items():
        names[by].add("_".join(_specific_words(one)))
    values = {
        one: quoted
        for one, (by, value) in found.items()
        if len(names[by]) == 1 and (quoted := _quoted(command.text, one, value, command.language))
    }
    left = tuple(one for one in open_ones if one not in values)
    if not values:
        return command.text, left
    longest_first = sorted(command.placeholders, key=len, reverse=True)  # $POD_NAME begins with $POD
    pattern = re.compile("|".join(map(re.escape, longest_first)))
    return pattern.sub(lambda match: values.get(match[0], match[0]), command.text), left


_GENERIC_WORDS = frozenset(
    ["affected", "failing", "failed", "id", "label", "labels", "my", "name", "of", "the", "this", "value", "your"]
)
ASSIGNMENT = re.compile(r"(?:^|[\s;(])(?:export\s+|local\s+)?([A-Za-z_]\w*)=(?=\S)")


def assigned_in(commands: Iterable[Command | ShownCommand]) -> frozenset[str]:
    """The variables of a shell that commands set."""
    return frozenset(name for command in commands for name in ASSIGNMENT.findall(command.text))


def _is_set(placeholder: str, text: str, assigned: Collection[str]) -> bool:
    """True if a shell variable is assigned in the command itself, or in another one of the document."""
    name = placeholder.strip("${}")
    return placeholder.startswith("$") and (name in assigned or name in ASSIGNMENT.findall(text))


def label_for(placeholder: str, labels: Mapping[str, str]) -> tuple[str, str] | None:
    """The label that a placeholder names, with its value; None for none. `<pod-name>` and `$POD` match the label `pod`, or a
    synonym. A placeholder with another word (`<standby_host>`, `PRIMARY_HOST`) matches only a label of exactly that name:
    the machine that alerts may be the other one."""
    words, specific = _words(placeholder), _specific_words(placeholder)
    if not words:
        return None
    known = {name.lower().replace("-", "_"): (name, value) for name, value in labels.items() if value}
    names = ["_".join(words), "_".join(specific)]
    if len(specific) == 1:
        names += _others(specific[0])
    found = next((known[name] for name in names if name in known), None)
    if found and specific[-1] in _HOSTS:
        return found[0], _NUMBERED.sub("", found[1])
    return found


def _words(placeholder: str) -> list[str]:
    inside = _INSIDE.search(placeholder)
    return [word.lower() for word in _WORDS.findall(inside[0])] if inside else []


def _specific_words(placeholder: str) -> list[str]:
    """The words of a placeholder without generic ones, unless it has no others."""
    words = _words(placeholder)
    return [word for word in words if word not in _GENERIC_WORDS] or words


def _others(name: str) -> Iterator[str]:
    return (other for group in _SAME if name in group for other in group if other != name)


def _quoted(text: str, placeholder: str, value: str, language: str) -> str:
    if _SAFE_SQL.match(value) and not value.startswith("-"):
        return value
    if "\n" in value or language in ("sql", "promql", "http", "powershell"):
        return ""
    if _READ_TWICE.search(text) or _in_quotes(text, placeholder):
        return ""
    return shlex.quote(value) if not value.startswith("-") else ""


def _in_quotes(text: str, placeholder: str) -> bool:
    """True if a placeholder occurs within quotes, which a quoted value would end."""
    at = text.find(placeholder)
    while at >= 0:
        before = text[:at]
        if before.count('"') % 2 or before.count("'") % 2 or before.count("`") % 2:
            return True
        at = text.find(placeholder, at + 1)
    return False
