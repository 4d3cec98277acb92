"""The agent's tools: what each is called, what it takes, within which limits. Everything that describes them is made
from here: the documents in docs/api, the check of a call's arguments, and the infrastructure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opx.errors import InvalidInputError

ACTION_GROUP = "retrieve-knowledge"
"""The name of the action group, and of the gateway's target."""

DEFAULT_RESULTS = 5
MAX_RESULTS = 20
MAX_ID_CHARACTERS = 100
_QUOTED_CHARACTERS = 60


class ArgumentError(InvalidInputError):
    """An argument of a call is missing, unknown or out of its limits; the caller can correct it."""


class UnknownToolError(InvalidInputError):
    """There is no such tool: whatever sends the calls is set up wrongly."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`type` is `string` or `integer`. A parameter without a default is required. Bounds are included."""

    name: str
    type: str
    about: str
    default: int | None = None
    minimum: int = 1
    maximum: int | None = None

    @property
    def required(self) -> bool:
        return self.default is None

    @property
    def description(self) -> str:
        """What it is, with its limits in words, as not every agent runtime has fields for them."""
        if self.required:
            return self.about
        return f"{self.about} From {self.minimum} to {self.maximum}, {self.default} if not given."

    def read(self, value: object) -> str | int:
        """The value in its type. Bedrock sends every value as text. Raises `ArgumentError`."""
        if self.type == "string":
            return self._text(value)
        number = _whole(value)
        if number is None or not self.minimum <= number <= (self.maximum or number):
            limits = f"{self.name} must be a whole number from {self.minimum} to {self.maximum}"
            raise ArgumentError(f"{limits}, not {_quoted(value)}")
        return number

    def _text(self, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            raise ArgumentError(f"{self.name} must be a text that is not empty, not {_quoted(value)}")
        if self.maximum is not None and len(value) > self.maximum:
            raise ArgumentError(f"{self.name} must have at most {self.maximum} characters, not {len(value):,}")
        return value.strip()


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation. `name` is that of the method of `KnowledgeTools` which does it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]

    def arguments(self, given: Iterable[tuple[str, object]]) -> dict[str, str | int]:
        """All parameters with their values, defaults included. Raises `ArgumentError` that says what is accepted."""
        known = {parameter.name: parameter for parameter in self.parameters}
        read: dict[str, str | int] = {}
        for name, value in given:
            if name not in known:
                raise ArgumentError(f"unknown parameter {_quoted(name)}; {self.name} takes: {', '.join(known)}")
            if name in read:
                raise ArgumentError(f"{name} is given twice")
            read[name] = known[name].read(value)
        for parameter in self.parameters:
            if parameter.default is not None:
                read.setdefault(parameter.name, parameter.default)
            elif parameter.name not in read:
                raise ArgumentError(f"{parameter.name} is missing: {parameter.about}")
        return read


_MAX_RESULTS = Parameter(
    name="max_results",
    type="integer",
    about="How many results to return at most.",
    default=DEFAULT_RESULTS,
    maximum=MAX_RESULTS,
)

SEARCH_RUNBOOKS = Tool(
    name="search_runbooks",
    description=(
        "Search the operations runbooks: procedures for diagnosing and fixing known problems, and how the systems are "
        "built. Use it before acting on an alert or a symptom. Each result names its source and document id; results "
        "that are not good enough are left out."
    ),
    parameters=(
        Parameter(
            name="query",
            type="string",
            about="The symptom, alert name, error message or task, in plain words or copied as it is.",
        ),
        _MAX_RESULTS,
    ),
)

SEARCH_POSTMORTEMS = Tool(
    name="search_postmortems",
    description=(
        "Search the postmortems of past incidents: what happened, why, how it was found and what fixed it. Use it to "
        "see whether a problem has occurred before. Each result names its source and document id; results that are "
        "not good enough are left out."
    ),
    parameters=(
        Parameter(
            name="query",
            type="string",
            about="What is happening now, the affected service or the suspected cause, in plain words.",
        ),
        _MAX_RESULTS,
    ),
)

GET_DOCUMENT_DETAILS = Tool(
    name="get_document_details",
    description=(
        "Get what is known about a document: title, category, tags, author, version, when it was last updated and "
        "where it is. Use it to judge or cite a search result."
    ),
    parameters=(
        Parameter(
            name="document_id",
            type="string",
            about="The document id, as search results give it.",
            maximum=MAX_ID_CHARACTERS,
        ),
    ),
)

TOOLS = {tool.name: tool for tool in (SEARCH_RUNBOOKS, SEARCH_POSTMORTEMS, GET_DOCUMENT_DETAILS)}


def tool_named(name: object) -> Tool:
    """Raises `UnknownToolError` that lists the tools."""
    if not isinstance(name, str) or name not in TOOLS:
        raise UnknownToolError(f"unknown tool {_quoted(name)}; there are: {', '.join(TOOLS)}")
    return TOOLS[name]


def _whole(value: object) -> int | None:
    """A whole number in any form that agents send it in: 5, 5.0, "5"."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return int(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _quoted(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _QUOTED_CHARACTERS else text[:_QUOTED_CHARACTERS] + "…"
