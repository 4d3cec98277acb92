"""Random worlds: clients, groups and projects with their documents, and the secrets of each from the others.

Everything in a world has marks, words that occur nowhere else. A world as one reader knows it omits everything that this
reader may not see; no reply to the reader may differ between the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from opx.domain.record import replace
from opx.domain.scopes import Identity, Reader, Scope, reader_of

CATEGORIES = ("runbooks/procedures", "postmortems", "vendor/linux")
COMMON = (
    "disk",
    "pool",
    "restart",
    "queue",
    "latency",
    "node",
    "timeout",
    "certificate",
    "backup",
    "replica",
    "volume",
    "cache",
)
"""Words in documents of all tenants, so that a query matches all of them."""

ELSEWHERE = Scope("elsewhere")
"""Has one document in every world, that of each reader included: each index has entries that the reader may not see.
It comes last, in a batch of its own, so that what was replaced before is cleaned up in all of them."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One document. `marks` are strings that occur in it and, unless it is a copy, nowhere else. `broken`: its ingestion
    fails."""

    scope: Scope
    source: str
    category: str
    content: str | bytes
    metadata: Mapping[str, Any]
    marks: frozenset[str]
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Measurement:
    """Values of a metric of a node."""

    scope: Scope
    node: str
    metric: str
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Question:
    """A query of another reader before the test, so that there are records and gaps."""

    identity: Identity
    text: str
    mark: str


@dataclass(frozen=True, slots=True)
class Name:
    """An alias of a service, set by an operator in a scope."""

    scope: Scope
    alias: str
    canonical: str


@dataclass(frozen=True, slots=True)
class Lesson:
    """A captured problem with its solution, each with a mark. Once it has `worked`, it is a pattern of the client; until
    then it belongs to the project."""

    identity: Identity
    problem: str
    solution: str
    worked: bool
    marks: frozenset[str]

    @property
    def known_in(self) -> Scope:
        return Scope(self.identity.client_id) if self.worked else _own(self.identity)


@dataclass(frozen=True, slots=True)
class Report:
    """A word in the descriptions of two incidents of a client that a document resolved."""

    client: Scope
    piece: Piece
    word: str

    @property
    def known_in(self) -> Scope:
        """Scope of the learnt word, visible only to readers of the document."""
        return self.piece.scope if self.piece.scope.client_id else self.client


@dataclass(frozen=True, slots=True)
class World:
    """Documents, projects and questions of all tenants. `groups` has the group of each project, by client and project;
    `hubs` are services that all tenants know and have relations with."""

    seed: int
    pieces: tuple[Piece, ...]
    groups: Mapping[tuple[str, str], str]
    measurements: tuple[Measurement, ...]
    questions: tuple[Question, ...]
    identities: tuple[Identity, ...]
    names: tuple[Name, ...] = ()
    hubs: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = field(default=())
    lessons: tuple[Lesson, ...] = ()
    reports: tuple[Report, ...] = ()

    def reader(self, identity: Identity) -> Reader:
        """The reader of an identity, computed from the world alone."""
        group = self.groups.get((identity.client_id, identity.project_id), "")
        if not (identity.project_id and group):
            return reader_of(identity)
        members = (
            project for (client, project), its in self.groups.items() if (client, its) == (identity.client_id, group)
        )
        return reader_of(identity, group, tuple(members))

    def as_known_to(self, identity: Identity) -> World:
        """The same world without all that this identity may not see."""
        reader = self.reader(identity)
        own = _own(identity)
        group = self.groups.get((identity.client_id, identity.project_id), "")
        return replace(
            self,
            pieces=tuple(one for one in self.pieces if _is_known(one, reader, own)),
            groups={
                owner: its
                for owner, its in self.groups.items()
                if owner == (identity.client_id, identity.project_id)
                or (group and (owner[0], its) == (identity.client_id, group))
            },
            measurements=tuple(one for one in self.measurements if reader.may_see(one.scope)),
            questions=tuple(one for one in self.questions if _own(one.identity) == own),
            names=tuple(one for one in self.names if reader.may_see(one.scope)),
            lessons=tuple(one for one in self.lessons if _is_taught(one, reader, own)),
            reports=tuple(one for one in self.reports if reader.may_see(one.known_in)),
        )

    def marks(self) -> frozenset[str]:
        """All strings that could reveal something of this world."""
        of_pieces = (mark for piece in self.pieces for mark in (*piece.marks, piece.source))
        of_measurements = (name for one in self.measurements for name in (one.node, one.metric))
        of_questions = (question.mark for question in self.questions)
        of_groups = (name for (_, project), group in self.groups.items() for name in (project, group))
        of_lessons = (mark for one in self.lessons for mark in (*one.marks, one.identity.project_id))
        of_reports = (report.word for report in self.reports)
        of_names = (word for name in self.names for word in (name.alias, name.canonical) if word not in self.hubs)
        return frozenset(
            (*of_pieces, *of_measurements, *of_questions, *of_groups, *of_lessons, *of_reports, *of_names)
        ) - {""}

    @property
    def given_away(self) -> tuple[Piece, ...]:
        """Documents whose words any reader may query, visible or not."""
        return self.pieces[::4]

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """Metrics that any reader may query."""
        return self.measurements[::2]

    @property
    def guesses(self) -> tuple[str, ...]:
        """Marks that any reader may query. They are no secrets of this world, as a reply may repeat the query; results for
        them must still not differ."""
        words = (mark for piece in self.given_away for mark in piece.marks)
        names = (name for one in self.measured for name in (one.node, one.metric))
        aliases = (one.alias for one in self.names[::2])
        reported = (one.word for one in self.reports)
        return tuple(sorted({*words, *names, *aliases, *reported}))

    def secrets_from(self, identity: Identity) -> frozenset[str]:
        """Strings that must not occur in any reply to this identity."""
        named = {identity.client_id, identity.project_id, *self.guesses}
        known = replace(self.as_known_to(identity), pieces=tuple(one for one in self._seen(identity)))
        return self.marks() - known.marks() - named

    def _seen(self, identity: Identity) -> Iterator[Piece]:
        return (one for one in self.as_known_to(identity).pieces if one.scope != ELSEWHERE)


def _own(identity: Identity) -> Scope:
    return Scope(identity.client_id, project_id=identity.project_id)


def _is_known(piece: Piece, reader: Reader, own: Scope) -> bool:
    """True if the reader may see a document; failed ones are visible only to their own project."""
    return piece.scope == own if piece.broken else piece.scope == ELSEWHERE or reader.may_see(piece.scope)


def _is_taught(lesson: Lesson, reader: Reader, own: Scope) -> bool:
    """True if the reader may see a lesson; unverified ones are visible only to their own project."""
    return reader.may_see(lesson.known_in) if lesson.worked else lesson.known_in == own


def found_in(text: str, secrets: Set[str]) -> list[str]:
    """Secrets that occur in a string, ignoring case."""
    lowered = text.casefold()
    return sorted(secret for secret in secrets if secret.casefold() in lowered)
