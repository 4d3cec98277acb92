"""What is captured, as it is given from outside: JSON with the fields of the staging table, whoever sends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opx.domain.learning import Effect, EntryType
from opx.domain.scopes import Identity
from opx.errors import InvalidInputError, InvalidScopeError

if TYPE_CHECKING:
    from opx.learning.capture import KnowledgeCaptureService

MAX_TEXT, MAX_NAME, MAX_STEPS = 8_000, 200, 50
"""Characters of a text and of a name, and steps: what a request may have. What is kept of it is bounded again."""

TYPE_FIELD, PROJECT_FIELD = "entry_type", "project_id"


@dataclass(frozen=True, slots=True)
class EntryField:
    """A field of what is captured: a text, several texts (`several`), or true or false (`flag`)."""

    name: str
    about: str
    maximum: int = MAX_TEXT
    several: bool = False
    flag: bool = False
    choices: tuple[str, ...] = ()


FIELDS = {
    field.name: field
    for field in (
        EntryField(PROJECT_FIELD, "The project that it was learned in; the caller's own, if the caller has one.", 64),
        EntryField("agent_type", "What kind of agent it was, such as backend_developer.", MAX_NAME),
        EntryField("task_type", "What kind of task, such as api_implementation.", MAX_NAME),
        EntryField("technology", "What it is about, such as postgresql.", MAX_NAME),
        EntryField("failure_description", "What went wrong, in plain words."),
        EntryField("error_message", "The error, copied as it was."),
        EntryField("solution_steps", "What put it right, a step each.", several=True),
        EntryField("success_verified", "True if somebody, or a check, saw that it works.", flag=True),
        EntryField("gate_type", "Which review it was, such as security_review.", MAX_NAME),
        EntryField("human_feedback", "What the person said who rejected it."),
        EntryField("revision_approach", "What was done about it."),
        EntryField("approved_approach", "What was approved at the first attempt."),
        EntryField("tried", "What was tried, and didn't help."),
        EntryField("effect", "What came of it.", choices=tuple(Effect)),
        EntryField("problem", "What it was tried against."),
        EntryField("reference", "The document that it was taken from: its id, key or source.", 1_000),
        EntryField("incident", "The incident's id.", MAX_NAME),
        EntryField("occurrence", "Names this occurrence for good, such as a run's id: told again, it is the same one.", 500),
    )
}
"""All that may be given, in the order in which it is described."""

_ALWAYS = (PROJECT_FIELD, "incident", "occurrence")
_WORK = ("agent_type", "task_type", "technology")


@dataclass(frozen=True, slots=True)
class Form:
    """What goes with one type of entry. `required` must not be empty; the other texts are "" if they are left out."""

    required: tuple[str, ...]
    others: tuple[str, ...] = ()
    optional: tuple[str, ...] = _ALWAYS

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.required, *self.others, *self.optional)


FORMS = {
    EntryType.FAILURE_SOLUTION: Form(
        ("failure_description",),
        ("error_message", "solution_steps", *_WORK),
        (*_ALWAYS, "success_verified"),
    ),
    EntryType.GATE_REJECTION: Form(("gate_type", "human_feedback"), ("revision_approach",)),
    EntryType.GATE_APPROVAL: Form(("gate_type", "approved_approach")),
    EntryType.WARNING: Form(("tried", "effect"), ("problem", "reference", "technology", "agent_type")),
}


def capture(service: KnowledgeCaptureService, identity: Identity, given: Mapping[str, Any]) -> str:
    """Capture what is given, in the identity's scope. Returns the entry's id.

    Raises `InvalidInputError` that names the field which is missing, unknown, or of the wrong kind, and
    `InvalidScopeError` for the project of somebody else.
    """
    entry_type, arguments = read_entry(given)
    arguments[PROJECT_FIELD] = project_of(identity, arguments.get(PROJECT_FIELD, ""))
    captured: str = getattr(service, f"capture_{entry_type.value}")(**arguments)
    return captured


def read_entry(given: object) -> tuple[EntryType, dict[str, Any]]:
    """The type, and the arguments of the method that captures it. Raises `InvalidInputError`."""
    if not isinstance(given, Mapping):
        raise InvalidInputError("what is captured must be an object (a mapping of fields)")
    present = {str(name): value for name, value in given.items() if value is not None}
    entry_type = _type_of(present.pop(TYPE_FIELD, None))
    form = FORMS[entry_type]
    _check_names(entry_type, form, present)
    found = {name: _value(FIELDS[name], value) for name, value in present.items()}
    for name in form.required:
        if not found.get(name):
            raise InvalidInputError(f"{entry_type.value} has no {name}: {FIELDS[name].about}")
    return entry_type, {**{name: () if FIELDS[name].several else "" for name in form.others}, **found}


def project_of(identity: Identity, given: str) -> str:
    """The project that something is learned in: the identity's own, or else the one that is given.

    Raises `InvalidScopeError` where both are, and differ.
    """
    own = identity.project_id
    if own and given and given != own:
        raise InvalidScopeError(f"project_id {given[:100]!r} is not the caller's project: leave it out, or give {own!r}")
    return own or given


def _type_of(value: object) -> EntryType:
    try:
        return EntryType(str(value))
    except ValueError:
        said = "is missing" if value is None else f"{str(value)[:60]!r} is unknown"
        raise InvalidInputError(f"{TYPE_FIELD} {said}: one of {', '.join(EntryType)}") from None


def _check_names(entry_type: EntryType, form: Form, present: Mapping[str, Any]) -> None:
    for name in present:
        if name not in form.names:
            known = ", ".join(form.names)
            raise InvalidInputError(f"{name[:60]!r} doesn't go with {entry_type.value}; there are: {known}")


def _value(field: EntryField, value: Any) -> Any:
    if field.flag:
        if not isinstance(value, bool):
            raise InvalidInputError(f"{field.name} must be true or false")
        return value
    if not field.several:
        return _text(field, value)
    steps = [value] if isinstance(value, str) else value
    if not isinstance(steps, list | tuple) or len(steps) > MAX_STEPS:
        raise InvalidInputError(f"{field.name} must be a list of at most {MAX_STEPS} texts")
    return tuple(text for text in (_text(field, step) for step in steps) if text)


def _text(field: EntryField, value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{field.name} must be a text, not {type(value).__name__}")
    text = value.strip()
    if len(text) > field.maximum:
        raise InvalidInputError(f"{field.name} may have {field.maximum:,} characters, not {len(text):,}")
    if text and field.choices and text not in field.choices:
        raise InvalidInputError(f"{field.name} must be one of {', '.join(field.choices)}, not {text[:60]!r}")
    return text
