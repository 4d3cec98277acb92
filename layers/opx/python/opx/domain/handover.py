"""The handover: parts of each found document that a reader gets (relevant blocks, steps, and calls that read more)."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field

from opx.domain.knowledge import Tier, Untrusted
from opx.domain.procedures import Blast, Effect, SectionKind
from opx.domain.queries import Band, Basis, band_of
from opx.domain.record import Json, Record, about, always, derive


class ShownCommand(Record, frozen=True, omit_defaults=True):
    """A command of a step that is shown, as the document has it or with placeholders filled in."""

    text: str
    language: str = ""
    effect: Annotated[Effect, about("Its worst effect; unknown: treat it as one that changes something.")] = always(
        Effect.UNKNOWN
    )
    blast: Annotated[Blast | None, about("Blast radius of that effect, if it is known.")] = None
    undo: Annotated[str, about("The command that reverses it. Empty: none is known.")] = ""
    placeholders: Annotated[tuple[str, ...], about("Placeholders to fill in, as written.")] = ()
    reason: Annotated[str, about("The reason for its effect, where that alone doesn't say it.")] = ""

    @property
    def harm(self) -> str:
        """`destructive`, `destructive, runs code from elsewhere`."""
        return f"{self.effect}, {self.reason}" if self.reason else self.effect.value


class FilledCommand(ShownCommand, frozen=True, kw_only=True):
    """A command with labels filled in. `step` is the name of its step, `placeholders` are those that are left."""

    step: str
    as_written: Annotated[str, about("The command as the document has it, where labels were filled in.")] = ""
    differs: Annotated[
        tuple[str, ...],
        about("Values that the document writes out and that differ from the alert's labels."),
    ] = ()


class StepView(Record, frozen=True, omit_defaults=True):
    """A step of a procedure. Its commands are there where its text is shown."""

    number: Annotated[int, about("Counts the steps of the document from 1.")]
    name: Annotated[str, about("Its name: its author's own number, or `#` and `number`.")]
    step_id: Annotated[str, about("Stays the same in later versions as long as its first line does.")]
    title: str
    effect: Annotated[Effect, about("The worst effect of its commands; destructive if its author calls it so.")] = (
        always(Effect.UNKNOWN)
    )
    shown: Annotated[bool, about("True if all of its text is in the answer.")] = always(False)
    section: str = ""
    commands: tuple[ShownCommand, ...] = ()
    expect: Annotated[str, about("The expected result.")] = ""
    check: Annotated[str, about("How to verify that it worked.")] = ""
    if_fails: Annotated[str, about("What to do if it doesn't.")] = ""
    goes_to: Annotated[str, about("The step (its name) or the page where that leads.")] = ""
    approval: Annotated[str, about("Whose approval is required before.")] = ""
    warnings: Annotated[tuple[str, ...], about("Warnings by its author.")] = ()

    @property
    def is_classed(self) -> bool:
        """True if `effect` is known: the step has commands, or its author calls it destructive."""
        return bool(self.commands) or self.effect is not Effect.UNKNOWN


class NextCall(Record, frozen=True):
    """A follow-up call that reads more or reports the outcome: a tool, or the operation of that name."""

    tool: str
    arguments: Json
    why: str


class DocumentAnswer(Record, frozen=True, kw_only=True, omit_defaults=True):
    """The parts of a document that are relevant to a question.

    `content` are the blocks that help, each whole, in the document's order, under their headings, with `[…]` where
    something between them is left out, and with added warnings before the lines that they refer to. `review` states since
    when its review is overdue, or by when it is due."""

    document_id: str
    title: str
    section: Annotated[str, about("The headings above the passage that matched, as `A > B`.")]
    source: Annotated[str, about("Where a person would open it.")]
    line: Annotated[int, about("The line of its text where the content begins, 0 if unknown.")] = 0
    category: str
    tier: str
    trust: float
    confidence: Annotated[float, about("How likely the document answers the question.")]
    band: Annotated[Band, about("How sure that is: sure, likely or weak.")] = always(Band.WEAK)
    judged: Annotated[Basis, about("What that is based on: estimated, or read by a model.")] = always(Basis.ESTIMATED)
    helps_by: Annotated[str, about("The line of it that answers or helps, where a model read it.")] = ""
    score: Annotated[float, about("Confidence times trust.")]
    attributes: Annotated[dict[str, Any], about("Further metadata that it was given, as they were given.")] = field(
        default_factory=dict
    )
    updated: Annotated[str, about("When it was last updated.")]
    age_days: Annotated[int | None, about("How many days ago that was.")] = None
    owner: str = ""
    review: Annotated[str, about("When its review is, or was, due, if that is set.")] = ""
    why: Annotated[str, about("Why it fits, in a line.")]
    content: Annotated[str, about("The blocks that help, as the document has them.")] = ""
    whole: Annotated[bool, about("True if that is all of its text.")] = always(False)
    steps: Annotated[
        tuple[StepView, ...], about("The steps of its procedure, those that are shown and others near them.")
    ] = ()
    step_count: Annotated[int, about("How many steps the procedure has.")] = 0
    warnings: Annotated[
        tuple[str, ...], about("Steps that were tried before without effect, or made things worse.")
    ] = ()
    flags: Annotated[tuple[str, ...], about("Flags that warn readers.")] = ()
    outcome: Annotated[str, about("Earlier outcomes of acting upon it, if known.")] = ""
    occurrences: Annotated[str, about("How often what it reports was reported, if more than once.")] = ""
    copies: Annotated[tuple[str, ...], about("Documents that say the same: title (source).")] = ()
    next: Annotated[tuple[NextCall, ...], about("Calls that read more of it.")] = ()
    untrusted: Untrusted = always(False)

    def __post_init__(self) -> None:
        derive(self, untrusted=self.untrusted or self.tier != Tier.INTERNAL, band=band_of(self.confidence))


class SectionView(Record, frozen=True, omit_defaults=True):
    """A section of a document's outline. `tokens` is an estimate."""

    heading: str
    level: int
    kind: SectionKind
    tokens: int = 0


def call(tool: str, why: str, **arguments: Any) -> NextCall:
    return NextCall(tool, arguments, why)


def read_call(document_id: str, why: str = "to see whether it fits") -> NextCall:
    return call("read_document", why, document=document_id)
