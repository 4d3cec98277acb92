"""Evidence: the account that an agent gives of a piece of work."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, ClassVar

from msgspec import Meta

from opx.domain.record import Record, about, always, derive
from opx.errors import InvalidInputError

MAX_TEXT = 20_000
_SHORT, _LINE, _ADDRESS = 100, 500, 2000
_MANY = 200

Short = Annotated[str, Meta(max_length=_SHORT)]
Line = Annotated[str, Meta(max_length=_LINE)]
Address = Annotated[str, Meta(max_length=_ADDRESS)]
Tag = Annotated[str, Meta(max_length=64)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=_MANY)]
Services = Annotated[tuple[Short, ...], Meta(max_length=50)]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=10)]
Addresses = Annotated[tuple[Address, ...], Meta(max_length=_MANY)]

AGENT = "agent"
"""Kind of an agent that doesn't state its own."""
TIMES = ("started_at", "finished_at")

CONCLUSION = about("Its conclusion.")
OBSERVATIONS = about("Its observations.")
SERVICES = about("Services that it is about.")
TAGS = about("Tags of the document.")
SOURCES = about("Documents and addresses that it is based on.")


class Evidence(Record, frozen=True, kw_only=True, rename=None, forbid_unknown_fields=True, omit_defaults=True):
    """An agent's account of its work. Strings are stripped, fields without a value are left out of its JSON, and a string
    alone is a list of one. No field is required: without an outcome, a solution is `proposed`, or `resolved` if it is
    verified, and work without one is `investigated`.

    Raises `InvalidInputError` for malformed times, and for details that are not JSON or too large.
    """

    unknown_fields: ClassVar[str] = "details"

    agent_type: Annotated[Short, about("Kind of agent, such as investigator.")] = always(AGENT)
    outcome: Annotated[
        Short,
        about("How it ended, such as resolved, investigated or failed; left out, it follows from the rest."),
    ] = ""
    evidence_id: Annotated[Line, about("Stable id: evidence sent again under it replaces the earlier one.")] = ""
    title: Annotated[Line, about("What it is about, in a line.")] = ""
    task: Annotated[Text, about("The agent's task.")] = ""
    conclusion: Annotated[Texts | Text, CONCLUSION] = ()
    observations: Annotated[Texts | Text, OBSERVATIONS] = ()
    node: Annotated[Line, about("The node, host or other resource that it is about.")] = ""
    symptom: Annotated[Text, about("What was seen, such as high CPU.")] = ""
    problem: Annotated[Text, about("What was wrong.")] = ""
    solution: Annotated[Text, about("What put it right.")] = ""
    verified: Annotated[bool | None, about("True if a person or a check saw that the solution works.")] = None
    incident: Annotated[Short, about("The incident's id.")] = ""
    severity: Annotated[Short, about("The incident's severity.")] = ""
    services: Annotated[Services | Short, SERVICES] = ()
    tags: Annotated[Tags | Tag, TAGS] = ()
    url: Annotated[Address, about("Where the run or the incident can be looked at.")] = ""
    run_id: Annotated[Line, about("The agent's run.")] = ""
    started_at: Annotated[Short, about("When the work began (ISO 8601).")] = ""
    finished_at: Annotated[Short, about("When it ended (ISO 8601).")] = ""
    sources: Annotated[Addresses | Address, SOURCES] = ()
    details: Annotated[
        dict[str, Any] | None,
        about(
            "Anything else, fields with other names included; kept, and not searched. A field that names a resource, such as"
            " host, instance or pod, is one of the document, too."
        ),
    ] = None

    def __post_init__(self) -> None:
        for name in EVIDENCE_FIELDS:
            value = getattr(self, name)
            if name in _LISTS:
                value = (value,) if isinstance(value, str) else value
                derive(self, **{name: tuple(stripped for one in value if (stripped := one.strip()))})
            elif isinstance(value, str):
                derive(self, **{name: value.strip()})
        for name in TIMES:
            _check_time(name, getattr(self, name))
        unstated = ("resolved" if self.verified else "proposed") if self.solution else "investigated"
        derive(self, agent_type=self.agent_type or AGENT, outcome=self.outcome or unstated)
        derive(self, details=_checked_details(self.details))


EVIDENCE_FIELDS = Evidence.__struct_fields__
_LISTS = ("conclusion", "observations", "services", "tags", "sources")


def _check_time(name: str, text: str) -> None:
    try:
        if text:
            datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInputError(f"{name} must be a time such as 2025-02-04T10:30:00Z, not {text!r}") from None


def _checked_details(details: dict[str, Any] | None) -> dict[str, Any] | None:
    """The details unchanged, if they can be written as JSON within the limit."""
    try:
        size = len(json.dumps(details, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise InvalidInputError(f"details can't be written as JSON: {exc}") from exc
    if size > MAX_TEXT:
        raise InvalidInputError(f"details may have at most {MAX_TEXT:,} characters as JSON, not {size:,}")
    return details or None
