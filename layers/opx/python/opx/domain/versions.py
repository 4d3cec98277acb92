"""Differences between versions of a document, and reports on versions that were restored."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from opx.domain.record import Record, about


class VersionName(Record, frozen=True):
    """One version of a document, current since a time ("" if unknown)."""

    version: int
    document_id: str
    since: Annotated[str, about("Since when it was current, empty if unknown.")] = ""


class Change(Record, frozen=True):
    """A field of the metadata that has another value."""

    field: str
    before: str
    after: str


class StepChangeKind(StrEnum):
    """Kinds of changes of a step. MOVED: the same text, in another order of the steps or in another section."""

    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"


class CommandChange(Record, frozen=True):
    """A command of a step that was replaced; "" where there was none before, or is none now."""

    before: str
    after: str


class StepChange(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A step that differs. `title` and `section` (its heading) are those of the later version, of a removed step those of
    the earlier. `name` and `name_before` are its names in the versions, "" in the one that hasn't got it."""

    kind: StepChangeKind
    title: str
    section: str = ""
    name: str = ""
    name_before: str = ""
    title_before: Annotated[str, about("Its title in the earlier version, if that was another one.")] = ""
    moved: Annotated[bool, about("True if it stands in another order or section, also of a changed one.")] = False
    commands: Annotated[tuple[CommandChange, ...], about("Commands that differ.")] = ()


class Renumbering(Record, frozen=True):
    """Steps in a row that their author numbered `first_before` to `last_before`, and now `first` to `last`; of a single one
    both are alike. `section` is the heading in the later version."""

    first_before: str
    last_before: str
    first: str
    last: str
    section: str = ""


class Safeguard(StrEnum):
    """Safeguards of a procedure: a sentence that warns or forbids, one that requires approval, one of a section of
    preconditions, or a whole section of preconditions, verification or rollback."""

    WARNING = "warning"
    APPROVAL = "approval"
    PRECONDITION = "precondition"
    ROLLBACK = "rollback"
    VERIFICATION = "verification"


class SafeguardChange(Record, frozen=True, kw_only=True, omit_defaults=True):
    """A safeguard that differs. `before` and `after` are its words, "" in the version that hasn't got it, of a whole section
    their beginning. `section` is a heading and `step` the name of a step of the later version, `section_before` and
    `step_before` of the earlier; "" for none."""

    kind: StepChangeKind
    safeguard: Safeguard
    before: str = ""
    after: str = ""
    section: str = ""
    section_before: str = ""
    step: str = ""
    step_before: str = ""
    whole_section: Annotated[
        bool, about("True for a section, false for a sentence; `before` and `after` are then its beginning.")
    ] = False


class VersionDiff(Record, frozen=True):
    """Differences of `after` from `before`. `diff` is a unified diff of the texts, "" if they are equal; `added` and
    `removed` count its lines. `cut`: there is more of it, of `safeguards` or of `steps`, than is shown."""

    source: Annotated[str, about("The document's name in the corpus, in its scope.")]
    before: VersionName
    after: VersionName
    changes: Annotated[tuple[Change, ...], about("Metadata with another value.")] = ()
    diff: Annotated[str, about("A unified diff of the texts, empty if they are equal.")] = ""
    added: Annotated[int, about("Lines that are only in the later text.")] = 0
    removed: Annotated[int, about("Lines that are only in the earlier text.")] = 0
    cut: Annotated[bool, about("True if the diff, or a list of steps or safeguards, is longer than what is shown.")] = (
        False
    )
    steps: Annotated[tuple[StepChange, ...], about("Steps of the procedure that differ.")] = ()
    renumbered: Annotated[
        tuple[Renumbering, ...], about("Steps that have another number, whether they differ or not.")
    ] = ()
    safeguards: Annotated[
        tuple[SafeguardChange, ...],
        about(
            "Warnings, approvals, preconditions, and sections of verification and rollback that differ: removed "
            "ones first, of these the warnings first."
        ),
    ] = ()
    notes: Annotated[tuple[str, ...], about("What could not be compared.")] = ()


class Restored(Record, frozen=True):
    """A restored version. Its object waits to be ingested, and becomes a new version.

    `original`: the object is restored byte for byte; else it is its extracted text, as Markdown, with its metadata from
    the catalog. `notes` list the differences.
    """

    object_key: Annotated[str, about("The object that waits to be ingested.")]
    restored: VersionName
    original: Annotated[bool, about("True if the object is restored byte for byte; else it is its extracted text.")]
    notes: Annotated[tuple[str, ...], about("Differences from the original.")] = ()
