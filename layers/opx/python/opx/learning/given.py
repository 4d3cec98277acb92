"""What is captured, as it is given from outside: JSON with the fields of the staging table, whoever sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.learning import MAX_ERROR, MAX_LINE, MAX_NAME, MAX_STEPS_TEXT, MAX_TEXT, Effect, EntryType
from opx.errors import InvalidInputError

if TYPE_CHECKING:
    from opx.learning.capture import KnowledgeCaptureService

TYPE_FIELD, PROJECT_FIELD = "entry_type", "project_id"


@dataclass(frozen=True, slots=True)
class GivenField:
    """A field of what is captured: a text, several texts (`several`), or true or false (`flag`). `maximum` is what the
    checks of `opx.learning.fields` allow, which whoever describes a request needn't load."""

    name: str
    about: str
    maximum: int = MAX_NAME
    several: bool = False
    flag: bool = False
    choices: tuple[str, ...] = ()


FIELDS = {
    field.name: field
    for field in (
        GivenField(PROJECT_FIELD, "The project that it was learned in; the caller's own, if the caller has one.", 64),
        GivenField("agent_type", "What kind of agent it was, such as backend_developer."),
        GivenField("task_type", "What kind of task, such as api_implementation."),
        GivenField("technology", "What it is about, such as postgresql."),
        GivenField("failure_description", "What went wrong, in plain words.", MAX_TEXT),
        GivenField("error_message", "The error, copied as it was.", MAX_ERROR),
        GivenField("solution_steps", "What was done about it, a step each.", MAX_STEPS_TEXT, several=True),
        GivenField("success_verified", "True if somebody, or a check, saw that it works.", flag=True),
        GivenField("gate_type", "Which review it was, such as security_review."),
        GivenField("human_feedback", "What the person said who rejected it.", MAX_TEXT),
        GivenField("revision_approach", "What was done about it.", MAX_TEXT),
        GivenField("approved_approach", "What was approved at the first attempt.", MAX_TEXT),
        GivenField("tried", "What was tried, and didn't help.", MAX_STEPS_TEXT),
        GivenField("effect", "What came of it.", choices=tuple(Effect)),
        GivenField("problem", "What it was tried against.", MAX_TEXT),
        GivenField("reference", "The document that it was taken from: its key or source.", MAX_LINE),
        GivenField("incident", "The incident's id."),
        GivenField(
            "occurrence",
            "Names this occurrence for good, such as a run's id: told again, it is the same one.",
            MAX_LINE,
        ),
    )
}
"""All that may be given, in the order in which it is described."""

_ALWAYS = (PROJECT_FIELD, "incident", "occurrence")
_WORK = ("agent_type", "task_type", "technology")


@dataclass(frozen=True, slots=True)
class Form:
    """What goes with one type of entry: arguments that its method needs, which are empty if they are left out, and
    others."""

    needed: tuple[str, ...]
    others: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.needed, *self.others)


FORMS = {
    EntryType.FAILURE_SOLUTION: Form(
        ("failure_description", "error_message", "solution_steps", *_WORK), (*_ALWAYS, "success_verified")
    ),
    EntryType.GATE_REJECTION: Form(("gate_type", "human_feedback", "revision_approach"), (*_WORK, *_ALWAYS)),
    EntryType.GATE_APPROVAL: Form(("gate_type", "approved_approach"), (*_WORK, *_ALWAYS)),
    EntryType.WARNING: Form(("agent_type", "tried", "effect"), ("problem", "reference", *_WORK[1:], *_ALWAYS)),
}


def capture(service: KnowledgeCaptureService, given: object) -> str:
    """Capture what is given; the entry's id.

    Raises `InvalidInputError` that names the field which is missing, unknown or of the wrong kind, and
    `UnknownProjectError` for the project of somebody else.
    """
    entry_type, arguments = read_entry(given)
    captured: str = getattr(service, f"capture_{entry_type.value}")(**arguments)
    return captured


def read_entry(given: object) -> tuple[EntryType, dict[str, Any]]:
    """The type, and the arguments of the method that captures it. Raises `InvalidInputError`."""
    if not isinstance(given, Mapping):
        raise InvalidInputError("what is captured must be an object (a mapping of fields)")
    present = {str(name): value for name, value in given.items() if value is not None}
    entry_type = _type_of(present.pop(TYPE_FIELD, None))
    form = FORMS[entry_type]
    for name in present:
        if name not in form.names:
            raise InvalidInputError(f"{name[:60]!r} doesn't go with {entry_type}; there are: {', '.join(form.names)}")
    if not isinstance(present.get("success_verified", False), bool):
        raise InvalidInputError("success_verified must be true or false")
    empty: dict[str, Any] = {name: () if FIELDS[name].several else "" for name in (PROJECT_FIELD, *form.needed)}
    return entry_type, {**empty, **present}


def _type_of(value: object) -> EntryType:
    try:
        return EntryType(str(value))
    except ValueError:
        said = "is missing" if value is None else f"{str(value)[:60]!r} is unknown"
        raise InvalidInputError(f"{TYPE_FIELD} {said}: one of {', '.join(EntryType)}") from None
