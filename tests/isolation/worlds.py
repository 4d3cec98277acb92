"""Random worlds: clients, groups, projects, what each of them put in, and what of it a reader must never learn.

Whatever somebody puts in has words that occur nowhere else, its marks. A world as one reader knows it leaves out all
that this reader may not see; nothing that the reader is told may differ between the two.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

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
"""Words that everybody uses, so that a question finds documents of everybody."""

ELSEWHERE = Scope("elsewhere")
"""Has one document in every world, that of each reader included: each index has entries that the reader may not see.
It comes last, in a batch of its own, so that what was replaced before is cleaned up in all of them."""

WORDS_OF_A_TEXT = 14
_CONSONANTS, _VOWELS = "bdfgklmnprtvz", "aiou"


@dataclass(frozen=True, slots=True)
class Piece:
    """One document. `marks` are texts that occur in it and, unless it is a copy, nowhere else. `broken`: it can't be
    taken in."""

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
    """What somebody asks before the reader does, so that there are records and gaps."""

    identity: Identity
    text: str
    mark: str


@dataclass(frozen=True, slots=True)
class Name:
    """Another name of a service, which a person has set in a scope."""

    scope: Scope
    alias: str
    canonical: str


@dataclass(frozen=True, slots=True)
class World:
    """What there is. `groups` says which group the projects are in, by client and project; `hubs` are services that
    everybody knows and has relations with."""

    seed: int
    pieces: tuple[Piece, ...]
    groups: Mapping[tuple[str, str], str]
    measurements: tuple[Measurement, ...]
    questions: tuple[Question, ...]
    identities: tuple[Identity, ...]
    names: tuple[Name, ...] = ()
    hubs: tuple[str, ...] = ()
    scopes: tuple[Scope, ...] = field(default=())

    def reader(self, identity: Identity) -> Reader:
        """What an identity may see, worked out from the world alone."""
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
                place: its
                for place, its in self.groups.items()
                if place == (identity.client_id, identity.project_id)
                or (group and (place[0], its) == (identity.client_id, group))
            },
            measurements=tuple(one for one in self.measurements if reader.may_see(one.scope)),
            questions=tuple(one for one in self.questions if _own(one.identity) == own),
            names=tuple(one for one in self.names if reader.may_see(one.scope)),
        )

    def marks(self) -> frozenset[str]:
        """Every text by which something of this world could be known."""
        of_pieces = (mark for piece in self.pieces for mark in (*piece.marks, piece.source))
        of_measurements = (name for one in self.measurements for name in (one.node, one.metric))
        of_questions = (question.mark for question in self.questions)
        of_groups = (name for (_, project), group in self.groups.items() for name in (project, group))
        of_names = (word for name in self.names for word in (name.alias, name.canonical) if word not in self.hubs)
        return frozenset((*of_pieces, *of_measurements, *of_questions, *of_groups, *of_names)) - {""}

    @property
    def given_away(self) -> tuple[Piece, ...]:
        """Documents whose words everybody may ask for, whether he may see them or not."""
        return self.pieces[::4]

    @property
    def measured(self) -> tuple[Measurement, ...]:
        """Metrics that everybody may ask for."""
        return self.measurements[::2]

    @property
    def guesses(self) -> tuple[str, ...]:
        """Marks that everybody may ask for. Being told them shows nothing, so that they are no secrets of this world;
        what is found by them may still not differ."""
        words = (mark for piece in self.given_away for mark in piece.marks)
        names = (name for one in self.measured for name in (one.node, one.metric))
        aliases = (one.alias for one in self.names[::2])
        return tuple(sorted({*words, *names, *aliases}))

    def secrets_from(self, identity: Identity) -> frozenset[str]:
        """What this identity must never be told."""
        named = {identity.client_id, identity.project_id, *self.guesses}
        known = replace(self.as_known_to(identity), pieces=tuple(one for one in self._seen(identity)))
        return self.marks() - known.marks() - named

    def _seen(self, identity: Identity) -> Iterator[Piece]:
        return (one for one in self.as_known_to(identity).pieces if one.scope != ELSEWHERE)


def _own(identity: Identity) -> Scope:
    return Scope(identity.client_id, project_id=identity.project_id)


def _is_known(piece: Piece, reader: Reader, own: Scope) -> bool:
    """What failed is shown to its own project alone."""
    return piece.scope == own if piece.broken else piece.scope == ELSEWHERE or reader.may_see(piece.scope)


def any_world(seed: int, *, pieces: int = 24) -> World:
    """A world of this seed: always the same one."""
    return _Maker(random.Random(seed), seed).world(pieces)


class _Maker:
    def __init__(self, chance: random.Random, seed: int) -> None:
        self._chance = chance
        self._seed = seed
        self._used: set[str] = set()
        self._hubs: tuple[str, ...] = ()

    def world(self, pieces: int) -> World:
        groups = self._groups()
        scopes = self._scopes(groups)
        self._hubs = (self.mark(), self.mark(), self.mark())
        made = list(islice(self._pieces(scopes), pieces))
        identities = self._identities(groups)
        return World(
            seed=self._seed,
            pieces=(*made, self._piece(ELSEWHERE)),
            groups=groups,
            measurements=tuple(self._measurement(scope) for scope in self._chance.choices(scopes, k=8)),
            questions=tuple(self._question(one) for one in self._chance.choices(identities, k=8)),
            identities=identities,
            names=tuple(self._name(scope, made) for scope in self._chance.choices(scopes, k=6)),
            hubs=self._hubs,
            scopes=scopes,
        )

    def mark(self) -> str:
        """A word that was never used."""
        while True:
            letters = (_CONSONANTS, _VOWELS) * 4
            word = "".join(self._chance.choice(some) for some in letters) + "x"
            if word not in self._used:
                self._used.add(word)
                return word

    def _groups(self) -> dict[tuple[str, str], str]:
        """Clients whose names begin alike, with projects of the same name, some of them in a group of the same name."""
        base = self.mark()
        clients = (base, f"{base}-b", f"{base}.b")[: self._chance.randint(2, 3)]
        shared = (self.mark(), self.mark())
        found = {}
        for client in clients:
            its = [*self._chance.sample(shared, k=self._chance.randint(1, 2)), *(self.mark() for _ in range(2))]
            names = (self.mark(), self.mark(), "")
            found.update({(client, project): self._chance.choice(names) for project in its})
        return found

    def _scopes(self, groups: Mapping[tuple[str, str], str]) -> tuple[Scope, ...]:
        clients = sorted({client for client, _ in groups})
        return (
            Scope(),
            *(Scope(client) for client in clients),
            *(Scope(client, project_id=project) for client, project in groups),
            *(Scope(client, group_id=group) for client, group in sorted({(c, g) for (c, _), g in groups.items() if g})),
        )

    def _identities(self, groups: Mapping[tuple[str, str], str]) -> tuple[Identity, ...]:
        """Every project, every client, nobody in particular, and some that nothing was ever put in for."""
        clients = sorted({client for client, _ in groups})
        strangers = (Identity(self.mark()), Identity(clients[0], self.mark()), Identity(clients[0][:-1]))
        return (Identity(), *map(Identity, clients), *(Identity(*place) for place in groups), *strangers)

    def _pieces(self, scopes: Sequence[Scope]) -> Iterator[Piece]:
        """Documents without end: new ones, new versions of old ones, copies in other scopes, broken ones."""
        made: list[Piece] = []
        while True:
            kind = self._chance.random()
            old = self._chance.choice(made) if made else None
            if old and kind < 0.12:
                piece = replace(self._piece(old.scope), source=old.source, category=old.category)
            elif old and kind < 0.3:
                piece = self._copy(old, self._chance.choice(scopes))
            elif kind < 0.36:
                piece = self._broken(self._chance.choice(scopes))
            else:
                piece = self._piece(self._chance.choice(scopes))
            if not piece.broken:
                made.append(piece)
            yield piece

    def _piece(self, scope: Scope) -> Piece:
        """All have the same number of terms in title and text, so that no length tells of others."""
        title, word, service, other, tag, author = (self.mark() for _ in range(6))
        common = self._chance.sample(COMMON, k=6)
        text = " ".join(self._shuffled((word, *common, *self._chance.choices(COMMON, k=WORDS_OF_A_TEXT - 8))))
        hub, second = self._chance.sample(self._hubs, k=2)
        relations = (
            f"service:{service}|DEPENDS_ON|service:{other}",
            f"service:{self._chance.choice((other, second))}|DEPENDS_ON|service:{hub}",
        )
        lines = f"# {title} {common[0]}\n\n{text}\n\n" + "\n".join(relations) + "\n"
        metadata = {
            "tags": [tag, "shared"],
            "services": [service],
            "author": author,
            "lastUpdated": self._day(),
            "createdAt": "2026-01-01T00:00:00Z",
        }
        source = f"{self.mark()}.md"
        marks = frozenset((title, word, service, other, tag, author))
        return Piece(scope, source, self._chance.choice(CATEGORIES), lines, metadata, marks)

    def _copy(self, old: Piece, scope: Scope) -> Piece:
        """The same text somewhere else: what is its own are its name, a tag, and its author."""
        tag, author = self.mark(), self.mark()
        words = frozenset(mark for mark in old.marks if mark in str(old.content))
        return replace(
            old,
            scope=scope,
            source=f"{self.mark()}.md",
            metadata={**old.metadata, "tags": [tag, "shared"], "author": author},
            marks=words | {tag, author},
        )

    def _broken(self, scope: Scope) -> Piece:
        mark = self.mark()
        content = f'{{"{mark}"'.encode()
        return Piece(scope, f"{self.mark()}.json", "operations/incidents", content, {}, frozenset({mark}), broken=True)

    def _name(self, scope: Scope, pieces: Sequence[Piece]) -> Name:
        services = [name for piece in pieces for name in piece.metadata.get("services", ())]
        return Name(scope, self.mark(), self._chance.choice((*self._hubs, *services[:4])))

    def _measurement(self, scope: Scope) -> Measurement:
        names = (self._chance.choice(("web-1", self.mark())), self._chance.choice(("cpu", self.mark())))
        return Measurement(scope, *names, tuple(self._chance.random() for _ in range(5)))

    def _question(self, identity: Identity) -> Question:
        mark = self.mark()
        return Question(identity, f"why {mark} {self._chance.choice(COMMON)}", mark)

    def _shuffled(self, words: Sequence[str]) -> list[str]:
        return self._chance.sample(words, k=len(words))

    def _day(self) -> str:
        return f"2026-0{self._chance.randint(1, 9)}-1{self._chance.randint(0, 9)}"


def found_in(text: str, secrets: Set[str]) -> list[str]:
    """The secrets that a text holds, in whatever case."""
    lowered = text.casefold()
    return sorted(secret for secret in secrets if secret.casefold() in lowered)
