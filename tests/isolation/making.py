"""Makes random worlds, the same one for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from tests.isolation.worlds import (
    CATEGORIES,
    COMMON,
    ELSEWHERE,
    Lesson,
    Measurement,
    Name,
    Piece,
    Question,
    Report,
    World,
)

WORDS_OF_A_TEXT = 14
WORDS_OF_A_PROBLEM, WORDS_OF_A_SOLUTION = 2, 7
_CONSONANTS, _VOWELS = "bdfgklmnprtvz", "aiou"


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
            lessons=tuple(self._lesson(one) for one in self._chance.choices(identities[:-3], k=max(3, pieces // 3))),
            reports=tuple(self._reports(scopes, made)),
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
        """A document; all have the same number of terms in title and text, so that lengths reveal nothing of others."""
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

    def _lesson(self, identity: Identity) -> Lesson:
        """As a document of a pattern, each has as many terms in title and text as a piece has."""
        mark, step = self.mark(), self.mark()
        problem = " ".join(self._shuffled((mark, *self._chance.sample(COMMON, k=WORDS_OF_A_PROBLEM - 1))))
        solution = " ".join(self._shuffled((step, *self._chance.sample(COMMON, k=WORDS_OF_A_SOLUTION - 1))))
        return Lesson(identity, problem, solution, self._chance.random() < 0.7, frozenset((mark, step)))

    def _reports(self, scopes: Sequence[Scope], pieces: Sequence[Piece]) -> Iterator[Report]:
        clients = [scope for scope in scopes if scope.client_id and scope == Scope(scope.client_id)]
        for piece in self._chance.sample([piece for piece in pieces if not piece.broken], k=min(4, len(pieces) // 2)):
            own = Scope(piece.scope.client_id)
            yield Report(own if own.client_id else self._chance.choice(clients), piece, self.mark())

    def _shuffled(self, words: Sequence[str]) -> list[str]:
        return self._chance.sample(words, k=len(words))

    def _day(self) -> str:
        return f"2026-0{self._chance.randint(1, 9)}-1{self._chance.randint(0, 9)}"
