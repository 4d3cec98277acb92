"""Outlines of documents: typed sections and the steps of procedures, with their commands and effects."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated

from opx.domain.record import Record, about, always


class SectionKind(StrEnum):
    """The role of a section in a runbook. REFERENCES: links to other pages. OTHER: no known role."""

    SYMPTOMS = "symptoms"
    IMPACT = "impact"
    PRECONDITIONS = "preconditions"
    DIAGNOSIS = "diagnosis"
    STEPS = "steps"
    VERIFICATION = "verification"
    ROLLBACK = "rollback"
    ESCALATION = "escalation"
    BACKGROUND = "background"
    REFERENCES = "references"
    OTHER = "other"


class Effect(StrEnum):
    """The worst consequence of a command. READ changes nothing; REVERSIBLE can be undone by another command; PAGES
    notifies people; COSTS starts or enlarges something that is billed; DESTRUCTIVE loses data, state, history or work in
    flight. UNKNOWN: no rule knows the command, which is to be treated as one that changes something."""

    READ = "read"
    UNKNOWN = "unknown"
    REVERSIBLE = "reversible"
    PAGES = "pages"
    COSTS = "costs"
    DESTRUCTIVE = "destructive"

    @property
    def severity(self) -> int:
        """Rank from harmless to worst."""
        return _SEVERITY[self]


FOREIGN_CODE = "runs code from elsewhere"
"""The rule of commands that execute code that isn't here to be read: fetched from an address, or encoded."""

_SEVERITY = {effect: rank for rank, effect in enumerate(Effect)}


class Blast(StrEnum):
    """Blast radius of an effect."""

    HOST = "host"
    SERVICE = "service"
    REGION = "region"
    CUSTOMERS = "customers"


class Classified(Record, frozen=True, omit_defaults=True):
    """A command's effect. `undo` is the command that reverses it, if a rule knows one; `rule` names the rule that
    decided, such as `kubectl delete`."""

    effect: Effect = always(Effect.UNKNOWN)
    blast: Blast | None = None
    undo: str = ""
    rule: str = ""

    @property
    def reason(self) -> str:
        """The rule behind the effect, where readers need it; else empty."""
        return self.rule if self.rule == FOREIGN_CODE else ""


class Command(Record, frozen=True, omit_defaults=True):
    """A command of a step. `text` is as the document has it, without a prompt; `language` is that of its code block, or the
    one that was recognised; `placeholders` are what a person has to fill in, as written (`<pod>`, `${NS}`)."""

    text: str
    language: str = ""
    placeholders: tuple[str, ...] = ()


class StoredEffects(Record, frozen=True):
    """The effects of the commands of all steps of an outline, in order. `table` is the version of the table of effects that
    they follow from."""

    table: str
    commands: tuple[Classified, ...]


KnownEffects = dict[tuple[str, Command], Classified]
"""Effects of commands by the version of the table of effects that they follow from, and the command."""


class Section(Record, frozen=True, omit_defaults=True):
    """A heading with the text below it, up to the next heading. `path` are the headings above and its own. `start` and
    `end` are character offsets in the document's text; before the first heading, `level` is 0 and `path` empty."""

    path: tuple[str, ...]
    level: int
    kind: SectionKind
    start: int
    end: int

    @property
    def heading(self) -> str:
        return self.path[-1] if self.path else ""


class Step(Record, frozen=True, omit_defaults=True):
    """One instruction, with everything that the document has below it.

    `step_id` stays the same in later versions as long as the section's path and the step's first line do. `number` counts
    from 1 within the document; `label` is the author's own number. `title` is its first line without marks. `section` is
    the index of its section. `expect`, `check` and `if_fails` are sentences of its text; `goes_to` names the step (as a
    number) or the page where `if_fails` leads. `approval` names whose approval is required. `warnings` are the author's
    own words; `destructive`: these, its title or a comment in its code state an irreversible loss.
    """

    step_id: str
    number: int
    title: str
    section: int
    start: int
    end: int
    label: str = ""
    commands: tuple[Command, ...] = ()
    expect: str = ""
    check: str = ""
    if_fails: str = ""
    goes_to: str = ""
    approval: str = ""
    warnings: tuple[str, ...] = ()
    destructive: bool = False


class Unit(Record, frozen=True, array_like=True):
    """A block of text that is shown whole or not at all: a paragraph with the code below it, a list item, a table's row.
    `section` and `step` are the index and the number of what it is in, 0 for no step. `head` is the index of the unit
    that has to stand before it, -1 for none: a table's header for its rows, an item's first paragraph for what is nested
    in it. `tokens` is an estimate; `warns`: it has a word such as never or not; `cautions`: it warns of its step, which
    isn't shown without it, or outside of steps of what is to be done."""

    start: int
    end: int
    section: int
    step: int = 0
    head: int = -1
    tokens: int = 0
    warns: bool = False
    cautions: bool = False


class Outline(Record, frozen=True, omit_defaults=True):
    """A document's text, its sections in order, and the steps of its procedure (none for a document without one).

    `units` are its blocks in order, headings left out unless they are all of a step. `unclosed` are the lines of its
    text, from 1, where code blocks begin that are never closed. `alerts` are the alerts that it is for. `text` is the
    normalised text that offsets of sections and steps point into; `whole` is false where it was too long to find steps
    in."""

    document_id: str
    title: str
    text: str
    sections: tuple[Section, ...]
    steps: tuple[Step, ...] = ()
    alerts: Annotated[tuple[str, ...], about("Alerts that the procedure is for.")] = ()
    whole: bool = always(True)
    units: tuple[Unit, ...] = ()
    unclosed: tuple[int, ...] = ()

    def slice(self, part: Section | Step | Unit) -> str:
        """The text of a part, exactly as the document has it."""
        return self.text[part.start : part.end]

    def step_names(self) -> dict[int, str]:
        """Names of the steps by number: the author's own number where no other step has it, else `#` and the number."""
        labels = Counter(step.label for step in self.steps)
        return {
            one.number: one.label if one.label and labels[one.label] == 1 else f"#{one.number}" for one in self.steps
        }
