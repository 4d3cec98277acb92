"""Figures of the benchmarks by name, as `NAME/.../MEASURE`, and the tables that show them.

A file has `figures`, and `about`: the code, the day, the machine and its calibration. `808b7f8.json` was measured by another
program; all others by `make bench` and `make bench-peers`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
BASELINE = FOLDER / "808b7f8.json"
MEASURED = FOLDER / "measured.json"
PEERS = FOLDER / "peers.json"

MODES = ("fast", "balanced", "thorough")
READERS = ("no filter", "5 % tenant")
CLIENTS = (1, 8, 50)


@dataclass(slots=True)
class Figures:
    """Figures by name; `about` describes their measurement."""

    values: dict[str, float] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Figures:
        """Of a file; empty if there is none."""
        if not path.exists():
            return cls()
        kept = json.loads(path.read_text(encoding="utf-8"))
        return cls(kept["figures"], kept["about"])

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        values = {name: float(f"{value:.4g}") for name, value in sorted(self.values.items())}
        path.write_text(json.dumps({"about": self.about, "figures": values}, indent=1) + "\n", encoding="utf-8")

    def add(self, prefix: str, found: Mapping[str, float]) -> None:
        self.values.update({f"{prefix}/{name}": value for name, value in found.items()})

    def of(self, prefix: str) -> dict[str, float]:
        """The figures below a prefix."""
        return {name[len(prefix) + 1 :]: one for name, one in self.values.items() if name.startswith(f"{prefix}/")}

    def sizes(self) -> list[int]:
        """Numbers of chunks that there are figures of an index for."""
        return sorted({int(name.split("/")[1]) for name in self.values if name.startswith("index/")})


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a table: its label, and the names of the figures in one of its cells, with `{}` for the column."""

    label: str
    names: Sequence[str]
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Table:
    """A table of figures; `columns` are headings by what stands for `{}` in the names. Ratios are to the column `base`, or to
    the figures before."""

    corner: str
    columns: Mapping[str, str]
    rows: Sequence[Row]
    base: str = ""

    def lines(self, now: Figures, before: Figures) -> Iterator[str]:
        """The table in Markdown: first the ratio of a cell's first figure, if there is one, then the figures in brackets."""
        yield f"| {' | '.join([self.corner, *self.columns.values()])} |"
        yield "|---" * (1 + len(self.columns)) + "|"
        for row in self.rows:
            cells = [self._cell(row, column, now, before) for column in self.columns]
            if any(cells):
                yield f"| {' | '.join([row.label, *cells])} |"

    def _cell(self, row: Row, column: str, now: Figures, before: Figures) -> str:
        names = [name.format(column) for name in row.names]
        values = [now.values[name] for name in names if name in now.values]
        if not values:
            return ""
        text = " / ".join(f"{value:,.{row.digits}f}" for value in values)
        old = now.values.get(row.names[0].format(self.base)) if self.base else before.values.get(names[0])
        return f"{values[0] / old:.2f} ({text})" if old else text


def size_label(chunks: int) -> str:
    return f"{chunks:,} chunks"


def by_size(sizes: Sequence[int]) -> Table:
    """Answers, memory, disk and updates."""
    answers = [
        Row(f"{mode}, {reader}: p50 / p95, ms", [f"answer/{mode}/{reader}/{{}}/p{at}_ms" for at in (50, 95)], 1)
        for mode in MODES
        for reader in READERS
    ]
    cpu = [
        Row(f"{mode}, {reader}: CPU, ms", [f"answer/{mode}/{reader}/{{}}/cpu_ms"], 1)
        for mode in MODES
        for reader in READERS
    ]
    others = [
        Row("memory of a process, MB / its own alone", ["memory/{}/rss_mb", "memory/{}/private_mb"]),
        Row("index on disk, MB", ["index/{}/disk_mb"]),
        Row(
            "index build without embedding, chunks/s / a CPU second",
            ["index/{}/chunks_per_s", "index/{}/chunks_per_cpu_s"],
        ),
        Row("change of one document and next search, ms", ["update/{}/sum_ms"], 1),
        Row("– the change: wall / CPU, ms", ["update/{}/apply_ms", "update/{}/apply_cpu_ms"], 1),
        Row("– next search: here / another process, ms", ["update/{}/next_ms", "update/{}/next_elsewhere_ms"], 1),
        Row("– any other search, ms", ["update/{}/steady_ms"], 1),
        Row("through ingestion, embedded: change / answer, ms", ["update/{}/ingested_ms", "update/{}/answered_ms"]),
        Row("`opx search` in a new process: wall / CPU, ms", ["command/{}/wall_ms", "command/{}/cpu_ms"]),
    ]
    return Table("", {str(size): size_label(size) for size in sizes}, [*answers, *cpu, *others])


def by_clients() -> Table:
    """Answers of `opx serve`."""
    rows = [
        Row("answers a second", ["serve/{}/answers_per_s"], 1),
        Row("p50, ms", ["serve/{}/p50_ms"]),
        Row("p99, ms", ["serve/{}/p99_ms"]),
        Row("CPU of the server, ms an answer", ["serve/{}/cpu_ms"], 1),
        Row("wrong or refused answers", ["serve/{}/errors"]),
    ]
    columns = {str(count): f"{count} client{'s' if count > 1 else ''}" for count in CLIENTS}
    return Table("`opx serve`, 10,000 chunks", columns, rows)


def of_ingestion() -> Table:
    rows = [
        Row("ingestion without a model's time", ["ingest/{}"]),
        Row("embedding, as ingestion does it", ["embed/{}"], 1),
    ]
    return Table("", {"chunks_per_s": "chunks/s", "chunks_per_cpu_s": "a CPU second"}, rows)


def of_documents() -> Table:
    """The cost of ingestion, which depends on the lengths of documents: chunks a second alone would hide it."""
    columns = {"document_cpu_ms": "ms CPU a document", "chunk_cpu_ms": "and ms a chunk of it"}
    return Table("", columns, [Row("ingestion without a model's time", ["ingest/{}"], 1)])


ENGINES = {
    "opx": "opx balanced",
    "afternoon_plus": "afternoon_plus",
    "fts5": "FTS5 + cosine, RRF",
    "lancedb": "LanceDB hybrid",
    "chroma": "Chroma (vector)",
    "bm25s": "bm25s (words)",
}
"""Columns of comparisons with other engines."""


def of_quality(kinds: Sequence[str]) -> Table:
    rows = [Row(f"nDCG@10, {kind}", [f"quality/{{}}/{kind}"], 3) for kind in kinds]
    return Table("", {**ENGINES, "opx_fast": "opx fast", "opx_thorough": "opx thorough"}, rows)


def of_engines() -> Table:
    """Engines side by side; ratios are to the product."""
    rows = [
        Row(f"answer, {reader}: p50 / p95, ms", [f"answer/{{}}/{reader}/p{at}_ms" for at in (50, 95)], 1)
        for reader in READERS
    ]
    rows += [Row(f"answer, {reader}: CPU, ms", [f"answer/{{}}/{reader}/cpu_ms"], 1) for reader in READERS]
    rows += [
        Row("results that the reader may not see", ["engine/{}/wrong"]),
        Row("memory of a process, MB", ["engine/{}/rss_mb"]),
        Row("on disk, MB", ["engine/{}/disk_mb"]),
        Row("build: wall / CPU, s", ["engine/{}/build_s", "engine/{}/build_cpu_s"], 1),
        Row("one more document, ms", ["engine/{}/change_ms"], 1),
        Row("next search, without embedding, ms", ["engine/{}/next_ms"], 1),
        Row("documents that it missed", ["engine/{}/missed"]),
        *over_http(),
    ]
    return Table("", ENGINES, rows, base="opx")


REPLIES = {"http": "HTTP", "passages": "HTTP, `budget: 0`"}
"""Replies that are compared: as they are by default, and with passages alone; the other engine's is the same in both."""


def over_http() -> Iterator[Row]:
    """Rows of servers: replies as they are by default, and those with passages alone."""
    measures = {"answers a second / p99, ms": ("answers_per_s", "p99_ms"), "CPU, ms an answer": ("cpu_ms",)}
    for (reply, label), (measure, names) in product(REPLIES.items(), measures.items()):
        for clients in CLIENTS:
            several = f"{clients} client{'s' if clients > 1 else ''}"
            yield Row(f"{label}, {several}: {measure}", [f"{reply}/{{}}/{clients}/{name}" for name in names], 1)


def peers_tables(now: Figures) -> str:
    """Both tables of `make bench-peers` in Markdown."""
    kinds = list(dict.fromkeys(name.split("/")[2] for name in now.values if name.startswith("quality/")))
    parts = (of_engines(), of_quality(sorted(kinds))) if kinds else (of_engines(),)
    return "\n\n".join("\n".join(part.lines(now, Figures())) for part in parts)


def scale_table(now: Figures) -> str:
    """Growth in Markdown: the figures of the curves, by number of chunks."""
    rows = [
        Row("balanced, no filter: p50, ms", ["answer/balanced/no filter/{}/p50_ms"], 1),
        Row("balanced, 5 % tenant: p50, ms", ["answer/balanced/5 % tenant/{}/p50_ms"], 1),
        Row("balanced, no filter: CPU, ms", ["answer/balanced/no filter/{}/cpu_ms"], 1),
        Row("memory, MB / its own alone", ["memory/{}/rss_mb", "memory/{}/private_mb"]),
        Row("index on disk, MB", ["index/{}/disk_mb"]),
        Row("index build, chunks/s", ["index/{}/chunks_per_s"]),
        Row("change of a document and next search, ms", ["update/{}/sum_ms"], 1),
    ]
    columns = {str(size): size_label(size) for size in now.sizes()}
    return "\n".join(Table("", columns, rows).lines(now, Figures()))


def tables(now: Figures, before: Figures) -> str:
    """All tables of `make bench` in Markdown."""
    parts = [by_size(now.sizes()), by_clients(), of_ingestion()]
    parts += [of_documents()] if now.of("ingest").keys() >= {"document_cpu_ms"} else []
    return "\n\n".join("\n".join(part.lines(now, before)) for part in parts)


def conditions(now: Figures) -> str:
    """The machine and the hour in a sentence."""
    about = now.about
    busy = ", a busy machine: compare processor times, the others are far too high" if about["load"] > 4 else ""
    return (
        f"Measured on {about['made']} with code {about['code']} on {about['machine']}; load {about['load']}{busy}; "
        f"calibration {about['calibration_ms']:.0f} ms"
    )
