"""What an agent's tool is: its name, what it takes, within which limits. Everything that describes tools is made from
their declarations: the documents in docs/api, the check of a call's arguments, and the infrastructure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from opx.domain.record import replace
from opx.errors import InvalidInputError

MAX_TOOLS = 11
"""Of an agent, over all its groups: Bedrock's quota "APIs per Agent"."""

MAX_FUNCTION_PARAMETERS = 5
"""Of a tool: Bedrock's quota "Parameters per function", which a bigger action group is refused for."""

Value = str | int | float
_QUOTED_CHARACTERS = 60
_CAMEL_CASE = re.compile(r"[a-z]+(?:[A-Z][a-z0-9]*)+\Z")
_HUMP = re.compile(r"(?=[A-Z])")


class ArgumentError(InvalidInputError):
    """An argument of a call is missing, unknown or out of its limits; the caller can correct it."""


class UnknownToolError(InvalidInputError):
    """There is no such tool for this agent: whatever sends the calls is set up wrongly."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`type` is `string`, `integer` or `number`. Bounds are included; those of a string are of its length.

    Required unless it has a default or is `optional`, for which nothing stands in. `choices` are of strings.
    """

    name: str
    type: str
    about: str
    default: Value | None = None
    minimum: int = 1
    maximum: int | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False

    @property
    def required(self) -> bool:
        return self.default is None and not self.optional

    @property
    def description(self) -> str:
        """What it is, with its limits in words, as not every agent runtime has fields for them."""
        return " ".join((self.about, *self._limits()))

    def _limits(self) -> Iterator[str]:
        told = f", {self.default} if not given" if self.default not in (None, "") else ""
        if self.choices:
            yield f"One of {', '.join(self.choices)}{told}."
        elif self.type != "string" and self.maximum is not None:
            yield f"From {self.minimum} to {self.maximum}{told}."
        elif told:
            yield f"{told.removeprefix(', ').capitalize()}."

    def read(self, value: object) -> Value:
        """The value in its type. Bedrock sends every value as text. Raises `ArgumentError`."""
        if self.type == "string":
            return self._text(value)
        return self._whole(value) if self.type == "integer" else self._number(value)

    def _whole(self, value: object) -> int:
        number = _whole(value)
        if number is None or not self.minimum <= number <= (self.maximum or number):
            limits = f"{self.name} must be a whole number from {self.minimum} to {self.maximum}"
            raise ArgumentError(f"{limits}, not {_quoted(value)}")
        return number

    def _number(self, value: object) -> float:
        try:
            number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise ArgumentError(f"{self.name} must be a number, not {_quoted(value)}")
        return number

    def _text(self, value: object) -> str:
        text = value.strip() if isinstance(value, str) else None
        if text == "" and not self.required:
            return str(self.default or "")
        if not text:
            raise ArgumentError(f"{self.name} must be a text that is not empty, not {_quoted(value)}")
        if self.choices and text not in self.choices:
            raise ArgumentError(f"{self.name} must be one of {', '.join(self.choices)}, not {_quoted(text)}")
        if self.maximum is not None and len(str(value)) > self.maximum:
            raise ArgumentError(f"{self.name} must have at most {self.maximum} characters, not {len(str(value)):,}")
        return text


@dataclass(frozen=True, slots=True)
class Tool:
    """One operation. `name` is that of the method which does it. `opt_in`: only agents that are said to may use it."""

    name: str
    description: str
    parameters: tuple[Parameter, ...]
    opt_in: bool = False

    def arguments(self, given: Iterable[tuple[str, object]]) -> dict[str, Value]:
        """All parameters with their values, defaults included. `maxResults` is taken for `max_results`.

        Raises `ArgumentError` that says what is accepted.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        read: dict[str, Value] = {}
        for spelled, value in given:
            name = snake_case(spelled)
            if name not in known:
                raise ArgumentError(f"unknown parameter {_quoted(spelled)}; {self.name} takes: {', '.join(known)}")
            if name in read:
                raise ArgumentError(f"{name} is given twice")
            if value is None and known[name].optional:  # how some agents leave it out
                continue
            read[name] = known[name].read(value)
        for parameter in self.parameters:
            if parameter.default is not None:
                read.setdefault(parameter.name, parameter.default)
            elif parameter.required and parameter.name not in read:
                raise ArgumentError(f"{parameter.name} is missing: {parameter.about}")
        return read


@dataclass(frozen=True, slots=True)
class ToolGroup:
    """Tools that one function does. `name` is that of the action group, and of the gateway's target."""

    name: str
    title: str
    description: str
    tools: tuple[Tool, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)

    def only(self, allowed: Collection[str]) -> ToolGroup:
        """The group with those of its tools that are among the names."""
        return replace(self, tools=tuple(tool for tool in self.tools if tool.name in allowed))

    def tool_named(self, name: object, allowed: Collection[str]) -> Tool:
        """The tool, if it is among the names `allowed`. `searchDocs` is taken for `search_docs`.

        Raises `UnknownToolError` that lists those that are allowed: the same for a tool that isn't and for none.
        """
        there_are = {tool.name: tool for tool in self.only(allowed).tools}
        found = there_are.get(snake_case(name)) if isinstance(name, str) else None
        if found is None:
            raise UnknownToolError(f"unknown tool {_quoted(name)}; there are: {', '.join(there_are) or 'none'}")
        return found


def snake_case(name: str) -> str:
    """`maxResults` as `max_results`; any other form of name as it is."""
    return _HUMP.sub("_", name).lower() if _CAMEL_CASE.match(name) else name


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
