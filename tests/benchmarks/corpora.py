"""Makes corpora of any size, as ingestion would write them, and questions to them; the same for the same seed.

A chunk is mixed of the lines of three real passages and has identifiers of its own; its vectors are mixed of theirs. There
are as many vectors as the first of the passages has: one window each. Documents belong to everybody, to a client or to one
of its 19 projects, and to one of three tiers; they are titled by an alert, and one in eight nearly repeats another one. No
two questions are equal, so that nothing is answered from a cache.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ROOT / "corpus" / "documents"
OWN_QUESTIONS = ROOT / "tests" / "quality" / "own" / "queries.jsonl"

SEED = 7
MOST_PASSAGES = 400
CHUNKS_A_DOCUMENT = 8
WORDS_A_CHUNK = 190
MIXED = 3
"""Passages that a chunk is mixed of."""

CLIENT = "acme"
"""The client, whose own documents and those of everybody are 5 % of all: what a reader outside of the group sees."""

EVERYBODY = "everybody"
PROJECTS = tuple(f"p{number:02}" for number in range(1, 20))
"""Projects of the client in one group: a reader in the group sees everything."""

FEW = (EVERYBODY, CLIENT)
"""The owners of the 5 %."""

_FOR_EVERYBODY, _OF_THE_CLIENT = 0.01, 0.04
_NEARLY_REPEATED = 1 / 8
_NOISES = 8192

CATEGORIES = (
    ("internal", "runbooks/procedures"),
    ("internal", "operations/incidents"),
    ("internal", "runbooks/architecture"),
    ("specialized", "vendor/cloud"),
    ("specialized", "vendor/linux"),
    ("internet", "web/blogs"),
)
_CATEGORY_SHARES = (0.4, 0.2, 0.1, 0.15, 0.05, 0.1)

_THINGS = [
    "Checkout",
    "Payments",
    "Orders",
    "Inventory",
    "Search",
    "Billing",
    "Ledger",
    "Auth",
    "Session",
    "Gateway",
    "Ingress",
    "Dns",
    "Kafka",
    "Redis",
    "Postgres",
    "Mysql",
    "Dynamo",
    "Lambda",
    "Queue",
    "Storage",
    "Node",
    "Pod",
    "Volume",
    "Disk",
    "Cache",
    "Broker",
    "Scheduler",
    "Registry",
    "Proxy",
    "Cdn",
    "Mail",
    "Backup",
]
_PARTS = [
    "Api",
    "Worker",
    "Replica",
    "Primary",
    "Consumer",
    "Producer",
    "Controller",
    "Pool",
    "Shard",
    "Router",
    "Agent",
    "Exporter",
    "Cluster",
    "Job",
    "Cron",
]
_FAULTS = [
    "LatencyHigh",
    "ErrorRateHigh",
    "Unavailable",
    "Saturated",
    "LagGrowing",
    "CrashLooping",
    "NotReady",
    "FillingUp",
    "CertExpiring",
    "Throttled",
    "OutOfMemory",
    "ConnectionsExhausted",
    "BacklogGrowing",
    "ReplicationBroken",
    "TimeoutsHigh",
]
_METRICS = [
    "p99_latency_ms",
    "error_ratio",
    "cpu_usage",
    "used_bytes_ratio",
    "consumer_lag",
    "open_connections",
    "restarts",
    "queue_depth",
]


# -- real passages, with the vectors of the product's model


@dataclass(frozen=True, slots=True)
class Passages:
    """Real passages: their lines, and their vectors, one row per window. `name` identifies texts and model."""

    name: str
    lines: Sequence[Sequence[str]]
    vectors: Sequence[Floats]


def read_passages(collection: Path | None = None) -> list[str]:
    """Passages between headings of the example corpus, or of a BEIR folder, in an order that doesn't change."""
    if collection is None:
        texts = [path.read_text(encoding="utf-8") for path in sorted(DOCUMENTS.rglob("*.md"))]
    else:
        rows = (collection / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        texts = [json.loads(row)["text"] for row in rows]
    found: dict[str, None] = {}
    for text in texts:
        for part in text.split("\n## "):
            words = part.split()
            if len(words) >= 30:
                found.setdefault("\n".join(_beginning(part.splitlines())))
    return list(islice(found, MOST_PASSAGES))


def _beginning(lines: Sequence[str]) -> Iterator[str]:
    words = 0
    for line in filter(None, map(str.strip, lines)):
        yield line
        words += len(line.split())
        if words >= WORDS_A_CHUNK:
            return


# -- documents


@dataclass(frozen=True, slots=True)
class SyntheticChunk:
    section: str
    text: str
    vectors: Floats


@dataclass(frozen=True, slots=True)
class SyntheticDocument:
    """`owner` is everybody, the client, or one of its projects."""

    number: int
    title: str
    owner: str
    tier: str
    category: str
    updated: str
    chunks: Sequence[SyntheticChunk]

    @property
    def source(self) -> str:
        return f"documents/{self.category}/{self.number:07}.md"

    def to_markdown(self, version: int = 0) -> str:
        """The document as a file; another version has another last line."""
        parts = [f"# {self.title}", *(f"## {one.section}\n\n{one.text}" for one in self.chunks)]
        return "\n\n".join([*parts, f"Revision {version}."]) + "\n"


class Corpus:
    """Documents by number; each is made for itself, so that a part of a corpus costs its part of the time."""

    def __init__(self, passages: Passages, seed: int = SEED) -> None:
        self.name = f"{passages.name[:8]}-{seed}"
        self._passages = passages
        self._seed = seed
        self._words = [[len(line.split()) for line in lines] for lines in passages.lines]
        dimension = passages.vectors[0].shape[1]
        drawn = np.random.default_rng((seed, 1)).standard_normal((_NOISES, dimension), dtype=np.float32)
        self._noise = drawn * np.float32(0.3 / np.sqrt(dimension))

    def documents(self, chunks: int) -> Iterator[SyntheticDocument]:
        """The documents of a corpus of so many chunks."""
        return map(self.document, range(max(1, chunks // CHUNKS_A_DOCUMENT)))

    def document(self, number: int) -> SyntheticDocument:
        chance = random.Random(self._seed * 1_000_003 + 2 * number)
        original = number
        if number and chance.random() < _NEARLY_REPEATED:
            original = chance.randrange(max(0, number - 500), number)
        owner = _owner(chance.random())
        tier, category = chance.choices(CATEGORIES, _CATEGORY_SHARES)[0]
        day = (date(2025, 1, 1) + timedelta(chance.randrange(600))).isoformat()
        chunks = tuple(self._chunks(original, repeated=original != number))
        return SyntheticDocument(
            number, title_of(self._seed, original), owner, tier, category, f"{day}T00:00:00Z", chunks
        )

    def _chunks(self, original: int, *, repeated: bool) -> Iterator[SyntheticChunk]:
        chance = random.Random(self._seed * 1_000_003 + 2 * original + 1)
        alert = title_of(self._seed, original)
        for position in range(CHUNKS_A_DOCUMENT):
            chosen = [chance.randrange(len(self._passages.lines)) for _ in range(MIXED)]
            lines = self._mixed_lines(chance, chosen)
            if repeated and len(lines) > 6:  # a copy lost a line
                del lines[len(lines) // 2]
            lines.append(_operational_line(chance, alert))
            heading = self._passages.lines[chosen[0]][0].lstrip("# ")[:80] or f"Part {position + 1}"
            yield SyntheticChunk(heading, "\n".join(lines), self._mixed_vectors(chance, chosen))

    def _mixed_lines(self, chance: random.Random, chosen: Sequence[int]) -> list[str]:
        """A run of lines of each passage, until there are enough words."""
        mixed: list[str] = []
        for each in chosen:
            lines, counts = self._passages.lines[each], self._words[each]
            taken = 0
            for at in range(start := chance.randrange(len(lines)), start + len(lines)):
                mixed.append(lines[at % len(lines)])
                taken += counts[at % len(lines)]
                if taken >= WORDS_A_CHUNK // MIXED:
                    break
        return mixed

    def _mixed_vectors(self, chance: random.Random, chosen: Sequence[int]) -> Floats:
        first, *others = (self._passages.vectors[each] for each in chosen)
        at = chance.randrange(_NOISES - len(first))
        other = chance.randrange(_NOISES - len(first))
        noise = self._noise[at : at + len(first)] + self._noise[other : other + len(first)]
        return unit(0.6 * first + 0.4 * (others[0][0] + others[1][0]) + noise)


def unit(rows: Floats) -> Floats:
    """The rows at length one."""
    return np.asarray(rows / np.linalg.norm(rows, axis=-1, keepdims=True), dtype=np.float32)


def _owner(drawn: float) -> str:
    if drawn < _FOR_EVERYBODY:
        return EVERYBODY
    few = _FOR_EVERYBODY + _OF_THE_CLIENT
    return CLIENT if drawn < few else PROJECTS[int((drawn - few) / (1 - few) * len(PROJECTS))]


def title_of(seed: int, number: int) -> str:
    """The name of the alert that a document is about."""
    chance = random.Random(seed * 1_000_003 + number)
    name = "".join(map(chance.choice, (_THINGS, _PARTS, _FAULTS)))
    return f"{name}{number // 500 if number >= 500 else ''}"


def _operational_line(chance: random.Random, alert: str) -> str:
    numbers = [chance.randrange(100_000) for _ in range(6)]
    metric = _METRICS[numbers[0] % len(_METRICS)]
    return (
        f"{alert}: {metric} > {numbers[1] % 997} on {_host(numbers[2])}, error E{numbers[3] % 9000 + 1000}, see "
        f"INC-{numbers[4]} and CHG-{numbers[5]}."
    )


def _host(number: int) -> str:
    return f"{_THINGS[number % len(_THINGS)].lower()}-{'abc'[number % 3]}{number % 97:02}.prod"


# -- questions


@dataclass(frozen=True, slots=True)
class Question:
    kind: str
    text: str


KINDS = ("alert", "log", "person", "exact")


class Questions:
    """Questions to a corpus of so many chunks: alert texts with values, log lines, questions of people, and names alone. With
    a BEIR folder, its questions take turns with them; each of them comes once."""

    def __init__(self, chunks: int, collection: Path | None = None, seed: int = SEED) -> None:
        self._documents = max(1, chunks // CHUNKS_A_DOCUMENT)
        self._seed = seed
        source = OWN_QUESTIONS if collection is None else collection / "queries.jsonl"
        rows = [json.loads(row) for row in source.read_text(encoding="utf-8").splitlines()]
        self._given = [str(row["text"]) for row in rows]
        self._from_collection = collection is not None

    def all(self) -> Iterator[Question]:
        """Questions without end, the kinds in turn."""
        left = iter(random.Random(self._seed).sample(range(len(self._given)), len(self._given)))
        seen: set[str] = set()
        for number, kind in enumerate(cycle(KINDS)):
            at = next(left, None) if self._from_collection else None
            text = self._given[at] if at is not None else self._made(kind, number)
            if text not in seen:
                seen.add(text)
                yield Question("collection" if self._from_collection and at is not None else kind, text)

    def portions(self, count: int, each: int) -> list[list[Question]]:
        """So many lists of different questions of the same kinds."""
        found = list(islice(self.all(), count * len(KINDS) * -(-each // len(KINDS))))
        groups = [found[start : start + len(KINDS)] for start in range(0, len(found), len(KINDS))]
        return [[one for group in groups[number::count] for one in group][:each] for number in range(count)]

    def _made(self, kind: str, number: int) -> str:
        chance = random.Random(self._seed * 2_000_003 + number)
        alert = title_of(SEED, chance.randrange(self._documents))
        values = [chance.randrange(100_000) for _ in range(4)]
        metric, host = _METRICS[values[0] % len(_METRICS)], _host(values[1])
        if kind == "alert":
            value, threshold = values[2] / 100, values[3] % 90
            return f"[FIRING:1] {alert} {metric} is {value:.2f} on {host} (threshold {threshold}) severity=critical"
        if kind == "log":
            time = f"2026-11-{values[0] % 28 + 1:02}T{values[1] % 24:02}:{values[2] % 60:02}:07Z"
            code, wait = values[3] % 9000 + 1000, values[0] % 30
            return (
                f"{time} ERROR {host} worker[{values[2]}]: {alert} code=E{code} connection refused, retrying in {wait}s"
            )
        if kind == "exact":
            return alert
        given = self._given[values[0] % len(self._given)]
        return f"{given} on {host}"


# -- keeping passages with their vectors


def load_passages(folder: Path, embed: object, model_id: str, collection: Path | None = None) -> Passages:
    """Passages with their vectors by `embed`, a function from texts to the vectors of each; kept in a file by model."""
    texts = read_passages(collection)
    name = hashlib.sha256("\n\n".join([model_id, *texts]).encode()).hexdigest()[:16]
    path = folder / f"passages-{name}.npz"
    lines = [text.splitlines() for text in texts]
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        each = [np.asarray(vectors, dtype=np.float32) for vectors in embed(texts)]  # type: ignore[operator]
        np.savez(path, rows=np.concatenate(each), counts=np.array([len(rows) for rows in each]))
    with np.load(path) as kept:
        ends = np.cumsum(kept["counts"])[:-1]
        return Passages(name, lines, [unit(rows) for rows in np.split(kept["rows"], ends)])
