"""Extracts edges from the metadata of a document: front matter, a sidecar, the fields of a record.

A field's value is a reference (`team:payments`) or the bare name of a node of the field's type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from opx.domain.documents import Remark, RemarkKind
from opx.domain.graph import EdgeStatement, Value
from opx.domain.knowledge import Tier
from opx.formats.metadata import MAX_ITEMS
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.own_node import (
    has_namespace,
    is_alert_name,
    make_reference,
    name_of_product,
    named_node,
    product_of,
    read_id,
    read_reference,
    reference_of_source,
    runbook_of,
    value_of,
)

RULE = "metadata"

HAPPENED = ("incident", "change", "alert_event")
"""Namespaces of events, which don't last."""

REMEDIATION = "evidence/remediation"
"""The category of successful fixes."""

_SENDERS = ("alertmanager",)
"""Tags of webhook deliveries that the name of the alert follows."""

_FIELDS = {
    "alert": ("alert", "alerts", "alertname"),
    "depends": ("depends_on", "depends-on", "dependencies"),
    "owner": ("owner", "owners", "owned_by", "team"),
    "host": ("host", "hosts", "hosted_on"),
    "incident": ("incident", "incidents", "incident_id"),
    "change": ("change", "changes", "change_id"),
    "runbook": ("runbook", "runbooks"),
    "affects": ("affects", "affected_systems", "affected_services"),
    "fixes": ("fixes",),
    "caused_by": ("caused_by", "caused-by"),
    "resolved_by": ("resolved_by", "resolved-by"),
    "product": ("product", "products", "runs"),
    "tested": ("tested-with", "tested_with"),
    "supersedes": ("supersedes", "replaces"),
    "service": ("service",),
}
"""Accepted names of each field."""


def stated_fields(material: Material, findings: Findings) -> None:
    """A document rule: all edges of the metadata except `relationships`. For internal documents only: services, owners and
    other names in foreign documents aren't ours."""
    if material.own and material.document.tier is Tier.INTERNAL:
        _Fields(material, findings).state_all()


@dataclass(frozen=True, slots=True)
class _Fields:
    material: Material
    findings: Findings

    def state_all(self) -> None:
        self._entity()
        self._cut()
        self._services()
        for field, state in _RULES.items():
            for text in self._values(field):
                state(self, text)
        for alias in self._texts(("aliases",)):
            self._alias(alias)

    # -- values

    def _values(self, field: str) -> list[str]:
        return self._alerts() if field == "alert" else self._texts(_FIELDS[field])

    def _texts(self, names: Sequence[str]) -> list[str]:
        found = (text.strip() for name in names for text in self.material.facts.get(name, ()))
        return [text for text in dict.fromkeys(found) if text]

    @property
    def _own(self) -> str:
        return self.material.own

    @property
    def _kind(self) -> str:
        return self._own.partition(":")[0]

    def _alerts(self) -> list[str]:
        """The alerts of the fields; without any, of a fired alert: the tag after its sender's, a tag with the shape of an
        alert's name, or a title of one word."""
        document = self.material.document
        stated = list(self._texts(_FIELDS["alert"]))
        if stated or self._kind != "alert_event":
            return stated
        tags = document.tags
        sent = [tags[at + 1] for at, tag in enumerate(tags[:-1]) if tag in _SENDERS]
        found = sent or [tag for tag in tags if is_alert_name(tag)]
        return found[:1] or ([document.title] if len(document.title.split()) == 1 else [])

    def _service_names(self) -> list[str]:
        return list(dict.fromkeys((*self.material.document.services, *self._values("service"))))

    def _service(self, field: str) -> str:
        """The service that a field is about: the document's own node, or the only service that it names."""
        if self._kind == "service":
            return self._own
        services = self._service_names()
        if len(services) == 1:
            return read_reference(services[0], "service")
        self._refuse(field, "doesn't state its service: write one service in `services`, or `entity: service:NAME`")
        return ""

    # -- statements

    def _state(self, source: str, edge: str, target: str, *, at: str = "", **properties: Value) -> None:
        if source and target and source != target:
            self.findings.add(EdgeStatement(source, edge, target, at=at, rule=RULE, properties=properties))

    def _thing(self, text: str, key: str) -> str:
        """The reference; records its name if that is written in another way."""
        name = text.partition(":")[2].strip() if has_namespace(text) else text
        if key and name != value_of(key):
            self.findings.add(named_node(name, key))
        return key

    def _refuse(self, field: str, why: str) -> None:
        self.findings.remarks.append(Remark(RemarkKind.MALFORMED_RELATION, f"metadata field {field!r} {why}"))

    def _read(self, text: str, namespace: str) -> str:
        key = read_reference(text, namespace)
        if not key:
            self._refuse(namespace, f"has {text[:60]!r}, which is not a name; write a name or namespace:value")
        return self._thing(text, key)

    def _entity(self) -> None:
        for text in self.material.facts.get("entity", ()):
            if not (has_namespace(text.strip()) and read_reference(text, "")):
                self._refuse(
                    "entity", f"has {text[:60]!r}, which is not a reference; write one such as service:checkout"
                )

    def _cut(self) -> None:
        """Remark on fields with the maximum number of values: further values were dropped when they were read."""
        for field in (*(name for names in _FIELDS.values() for name in names), "relationships", "aliases"):
            if len(self.material.facts.get(field, ())) == MAX_ITEMS:
                self._refuse(field, f"has {MAX_ITEMS} values, and further ones are not read: write them into the text")

    def _services(self) -> None:
        edge = "affects" if self._kind in HAPPENED else "mentions" if self._kind == "service" else "documents"
        for name in self._service_names():
            key = self._read(name, "service")
            if self._kind == "alert_event":
                for alert in self._values("alert"):
                    self._state(read_reference(alert, "alert"), "fires_on", key)
            self._state(self._own, edge, key)

    def _alert(self, text: str) -> None:
        key = self._read(text, "alert")
        if self._kind == "service":
            self._state(key, "fires_on", self._own)
        elif self._kind == "alert_event":
            self._state(self._own, "instance_of", key, at=self.material.document.created_at)
        else:
            self._state(self._own, "handles" if self._kind == "runbook" else "mentions", key)

    def _host(self, text: str) -> None:
        key = self._read(text, "host")
        if self._kind in HAPPENED:
            self._state(self._own, "affects", key)
        else:
            self._state(self._service("hosts"), "hosted_on", key)

    def _product(self, text: str) -> None:
        key, about = self._versioned("runs", text)
        if self._kind in (*HAPPENED, "document"):
            self._state(self._own, "mentions", key, **about)
        else:
            self._state(self._service("runs"), "runs", key, **about)

    def _versioned(self, field: str, text: str) -> tuple[str, dict[str, str]]:
        key, version = product_of(text)
        if not key:
            self._refuse(field, f"has {text[:60]!r}, which is not a product; write one such as nginx 1.24.0")
        return self._thing(name_of_product(text), key), {"version": version} if version else {}

    def _tested(self, text: str) -> None:
        key, about = self._versioned("tested-with", text)
        self._state(self._own, "tested_with", key, **about)

    def _incident(self, text: str) -> None:
        key = self._id(text, "incident")
        if self.material.document.category == REMEDIATION:
            self._state(key, "resolved_by", self._own)
        else:
            self._state(self._own, "mentions", key)

    def _runbook(self, text: str) -> None:
        key = self._known_runbook("runbook", text)
        if self._kind == "service":
            self._state(key, "documents", self._own)
            return
        self._state(self._own, "references", key)
        if self._kind == "alert_event":
            for alert in self._values("alert"):
                self._state(key, "handles", read_reference(alert, "alert"))

    def _known_runbook(self, field: str, text: str) -> str:
        key = runbook_of(text)
        if not key and self._kind != "alert_event":  # alerts often have an address in this field
            self._refuse(field, f"has {text[:60]!r}, which is not the name or path of a runbook")
        return key

    def _fixes(self, text: str) -> None:
        key = self._id(text, "jira")
        if key.startswith("incident:"):
            self._state(key, "resolved_by", self._own)
        else:
            self._state(self._own, "fixes", key)

    def _resolved_by(self, text: str) -> None:
        key = read_id(text, "")
        self._state(self._own, "resolved_by", self._thing(text, key) or self._known_runbook("resolved_by", text))

    def _id(self, text: str, namespace: str) -> str:
        key = read_id(text, namespace)
        name = text if len(text.split()) == 1 else value_of(key).upper()
        return self._thing(name, key) if key else self._read(text, namespace)

    def _supersedes(self, text: str) -> None:
        category = "" if self._kind == "runbook" else self.material.document.category
        key = read_reference(text, "") if has_namespace(text) else reference_of_source(text, category)
        self._state(self._own, "supersedes", key)

    def _alias(self, text: str) -> None:
        alias = read_reference(text, self._kind) if has_namespace(text) else make_reference(self._kind, text)
        if alias and alias != self._own:
            self.findings.aliases.append((alias, self._own))


_RULES: dict[str, Callable[[_Fields, str], None]] = {
    "alert": _Fields._alert,
    "depends": lambda it, text: it._state(it._service("depends_on"), "depends_on", it._read(text, "service")),
    "owner": lambda it, text: it._state(it._own, "owned_by", it._read(text, "email" if "@" in text else "team")),
    "host": _Fields._host,
    "product": _Fields._product,
    "tested": _Fields._tested,
    "incident": _Fields._incident,
    "change": lambda it, text: it._state(it._own, "mentions", it._id(text, "change")),
    "runbook": _Fields._runbook,
    "affects": lambda it, text: it._state(it._own, "affects", it._read(text, "service")),
    "fixes": _Fields._fixes,
    "caused_by": lambda it, text: it._state(it._id(text, "change"), "caused", it._own),
    "resolved_by": _Fields._resolved_by,
    "supersedes": _Fields._supersedes,
}
