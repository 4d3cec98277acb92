"""Defines the works that are killed, their repair, and the conditions that must hold afterwards.

A work has a folder of its own, and rounds: it prepares something, does it (in a process that may be killed), does it again,
and is checked. Acknowledged items are noted at once, so that a loss is detected even if the repair makes up for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from opx.domain.documents import DocumentKey, DocumentState
from opx.domain.scopes import Identity, Scope
from opx.ingestion.corpus.chunk_files import version_files
from opx.ingestion.indexing.book import EditionState
from opx.operations.system import System
from opx.ports import SearchFilter
from opx.settings import Settings
from opx.system import bootstrap
from tests.support.captures import capture_failure_solution
from tests.support.cli_support import WordEmbedder

IDENTITY = Identity("acme", "orders")
PROJECT = IDENTITY.project_id
SHARED = Scope(IDENTITY.client_id)
WHERE = SearchFilter(scopes=(Scope().key, SHARED.key))
BEGAN = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
DAY = 86_400
ENTRIES, PATTERNS, DOCUMENTS, KEPT = 24, 8, 16, 8

Note = Callable[[str], None]


@dataclass
class Found:
    """Violations: lost and doubled items."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)

    def counted(self, name: str, there: int, wanted: int) -> None:
        """Records a count that is too low or too high."""
        if there != wanted:
            (self.lost if there < wanted else self.doubled).append(f"{name}: {there} instead of {wanted}")


class Work(Protocol):
    """A work that is killed."""

    name: str

    def clock(self, number: int) -> Callable[[], float]:
        """The time in a round."""

    def prepare(self, services: System, number: int) -> None:
        """Prepares a round; not killed."""

    def do(self, services: System, number: int, note: Note) -> None:
        """Does the work that is killed, and repeated to repair it."""

    def check(self, services: System, number: int) -> Found:
        """Checks the results of all rounds so far."""

    def kept(self, services: System, number: int, noted: list[str]) -> Found:
        """Acknowledged items of the killed process that are missing before the repair."""


class _Work:
    def clock(self, number: int) -> Callable[[], float]:
        return lambda: BEGAN + number * 3600

    def prepare(self, services: System, number: int) -> None:
        """Nothing."""

    def kept(self, services: System, number: int, noted: list[str]) -> Found:
        return Found()


def opened(folder: Path, work: Work, number: int) -> System:
    """The system in a folder, in a round. Its model is a bag of words: the model is not under test."""
    settings = Settings(home=str(folder), retry_base_seconds=0.0)
    return bootstrap(settings, clock=work.clock(number), embedder=WordEmbedder(), new_embedder=_model)


class _Words(WordEmbedder):
    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension
        self.model_id = f"words-{dimension}/1"


def _model(model: str, _path: str, _dimension: int) -> WordEmbedder:
    return _Words(int(model)) if model else WordEmbedder()


class Capture(_Work):
    """Captures entries one by one; each id is acknowledged."""

    name = "capture"

    def do(self, services: System, number: int, note: Note) -> None:
        for at in range(ENTRIES):
            note(_capture(services, number, at))

    def kept(self, services: System, number: int, noted: list[str]) -> Found:
        there = {entry.id for entry in services.learning.capture(IDENTITY).entries("", 1000)}
        return Found(lost=[f"entry {one} of round {number}" for one in noted if one not in there])

    def check(self, services: System, number: int) -> Found:
        found = Found()
        occurrences = Counter(entry.incident for entry in _entries(services))
        for each in range(number + 1):
            for at in range(ENTRIES):
                found.counted(f"entry {at} of round {each}", occurrences[_incident(each, at)], 1)
        return found


class Checkpoint(_Work):
    """Turns captured entries into patterns: new ones, and those of all rounds before once more."""

    name = "checkpoint"

    def prepare(self, services: System, number: int) -> None:
        for at in range(ENTRIES):
            _capture(services, number, at)

    def do(self, services: System, number: int, note: Note) -> None:
        services.learning.checkpoints(IDENTITY).process_checkpoint(PROJECT, "project_completion")
        list(services.manager.work())

    def check(self, services: System, number: int) -> Found:
        found = Found()
        wanted = Counter(_problem(each, at) for each in range(number + 1) for at in range(ENTRIES))
        patterns = {pattern.problem: pattern for pattern in services.learning.patterns.patterns(SHARED.key)}
        found.counted("patterns", len(patterns), len(wanted))
        for problem, times in wanted.items():
            pattern = patterns.get(problem)
            if pattern:
                rows = list(services.learning.patterns.occurrences(SHARED.key, pattern.pattern_id))
                found.counted(f"successes of {problem}", pattern.success_count, times)
                found.counted(f"occurrences of {problem}", len({row.entry_id for row in rows}), times)
                found.counted(f"rows of {problem}", len(rows), times)
        found.counted("entries taken in", sum(entry.embedded for entry in _entries(services)), sum(wanted.values()))
        found.counted("entries of the index", services.index.count(WHERE), len(wanted))
        found.counted("waiting messages", services.queue.waiting(), 0)
        return found


class Prune(_Work):
    """Documents expire; others stay."""

    name = "prune"

    def clock(self, number: int) -> Callable[[], float]:
        """A month per round."""
        return lambda: BEGAN + number * 30 * DAY

    def prepare(self, services: System, number: int) -> None:
        expires = datetime.fromtimestamp(BEGAN + (number * 30 + 2) * DAY, UTC).date().isoformat()
        for at in range(DOCUMENTS):
            services.manager.put_document(
                "runbooks/procedures", _text(number, at), {**_named(number, at), "expires": expires}
            )
        for at in range(DOCUMENTS, DOCUMENTS + KEPT):
            services.manager.put_document("runbooks/procedures", _text(number, at), _named(number, at))
        list(services.manager.work())

    def do(self, services: System, number: int, note: Note) -> None:
        services.installation.clock = lambda: BEGAN + (number * 30 + 10) * DAY
        services.lifecycle.pruning().run(allow_share=1.0)
        list(services.manager.work())

    def check(self, services: System, number: int) -> Found:
        found = Found()
        documents = list(services.corpus.catalog.in_category("runbooks/procedures", current_only=False))
        sources = Counter(document.key.source for document in documents)
        objects = Counter(info.key for info in services.store.list() if info.key.startswith("documents/"))
        entries = _entries_by_source(services, number)
        for each in range(number + 1):
            for at in range(DOCUMENTS + KEPT):
                source, wanted = _source(each, at), int(at >= DOCUMENTS)
                for name, there in (("catalog", sources), ("corpus", objects), ("index", entries)):
                    found.counted(f"{source} in the {name}", there[source], wanted)
        found.counted("entries of the index", services.index.count(WHERE), KEPT * (number + 1))
        current = [document for document in documents if document.state is DocumentState.CURRENT]
        wanted_files = {name for document in current for name in version_files(document.key, document.document_id)}
        files = {info.key for info in services.store.list("chunks/")}
        found.counted("files of chunks and outlines", len(wanted_files), 2 * KEPT * (number + 1))
        found.lost += [f"{name} is missing" for name in sorted(wanted_files - files)]
        found.doubled += [f"{name} is left" for name in sorted(files - wanted_files)]
        return found


class Reindex(_Work):
    """A new index for another model each time, while documents come and change between."""

    name = "reindex"

    def prepare(self, services: System, number: int) -> None:
        for at in range(DOCUMENTS):  # new ones, and those of the first round anew
            services.manager.put_document("runbooks/procedures", _text(number, at), _named(number, at))
            services.manager.put_document("runbooks/procedures", _text(number, at, "again"), _named(-1, at))
        list(services.manager.work())

    def do(self, services: System, number: int, note: Note) -> None:
        wanted = _Words(32 + 8 * (number % 2)).model_id
        with services.work.exclusive_reindex():
            reindexer = services.lifecycle.reindexer
            if services.indexing.document_embedder.model_id != wanted:
                reindexer.start(model=str(32 + 8 * (number % 2)))
            while reindexer.is_under_way and not reindexer.advance(lambda: False).finished:
                pass
            reindexer.discard()

    def check(self, services: System, number: int) -> Found:
        found = Found()
        entries = _entries_by_source(services, number)
        for each in range(-1, number + 1):
            for at in range(DOCUMENTS):
                found.counted(f"{_source(each, at)} in the index", entries[_source(each, at)], 1)
        found.counted("entries of the index", services.index.count(WHERE), DOCUMENTS * (number + 2))
        held = [
            one for one in services.lifecycle.reindexer.status()[0].editions if one.state is not EditionState.DISCARDED
        ]
        found.counted("indexes", len(held), 1)
        wanted = _Words(32 + 8 * (number % 2)).model_id
        found.counted(f"index of {wanted}", int(services.indexing.document_embedder.model_id == wanted), 1)
        return found


WORKS: dict[str, type[_Work]] = {work.name: work for work in (Capture, Checkpoint, Prune, Reindex)}


def _capture(services: System, number: int, at: int) -> str:
    problem = _problem(number, at)
    return capture_failure_solution(
        services.learning.capture(IDENTITY),
        PROJECT,
        "backend",
        "incident_response",
        problem,
        "it was down",
        [f"Repair {problem}"],
        problem.split()[0],
        success_verified=True,
        incident=_incident(number, at),
        occurrence=_incident(number, at),
    )


def _incident(number: int, at: int) -> str:
    return f"INC-{number}-{at}"


def _problem(number: int, at: int) -> str:
    """A problem with a technology of its own, so that no two are similar. Some are of this round, the others of all."""
    of = f"all{at % PATTERNS}" if at >= PATTERNS else f"round{number}x{at}"
    return f"tech{of} failed as {of} was down"


def _entries(services: System) -> Iterator[_Entry]:
    after = ""
    while True:
        some = services.learning.capture(IDENTITY).entries("", 500, after)
        yield from (_Entry(entry.incident, entry.embedded) for entry in some)
        if len(some) < 500:
            return
        after = some[-1].id


@dataclass(frozen=True)
class _Entry:
    incident: str
    embedded: bool


def _named(number: int, at: int) -> dict[str, str]:
    return {"source": _source(number, at).removeprefix("documents/runbooks/procedures/"), "name": "page.md"}


def _source(number: int, at: int) -> str:
    return f"documents/runbooks/procedures/r{number}d{at}.md"


def _text(number: int, at: int, more: str = "") -> str:
    return f"# Page {number} {at}\n\nWhat to do about thing{number}x{at} {more}.\n"


def _entries_by_source(services: System, number: int) -> Counter[str]:
    """The number of index entries per document."""
    found: Counter[str] = Counter()
    for each in range(-1, number + 1):
        for at in range(DOCUMENTS + KEPT):
            source = _source(each, at)
            found[source] = len(services.index.references(DocumentKey(Scope(), source).id))
    return found
