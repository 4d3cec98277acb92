"""Writes what `make bench` and `make bench-peers` measured into the documentation: `python -m tests.benchmarks.report`.

The figures are kept in `tests/benchmarks/figures`; the tables of docs/measured.md and the curves of docs/scale.md are made of
them. Text outside of the markers stays.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.benchmarks.bench import CACHE, normalised
from tests.benchmarks.corpora import ROOT
from tests.benchmarks.curves import Curve, chart
from tests.benchmarks.figures import (
    BASELINE,
    MEASURED,
    PEERS,
    Figures,
    conditions,
    peers_tables,
    scale_table,
    tables,
)

DOCS = ROOT / "docs"
PARTS = {"measured.md": ("bench", "peers"), "scale.md": ("scale",)}


def replaced(text: str, name: str, content: str) -> str:
    """The text with new content between the markers of this name. Raises `ValueError` if it has none."""
    pattern = re.compile(rf"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"no markers <!-- {name}: begin --> and <!-- {name}: end -->")
    return pattern.sub(lambda found: f"{found[1]}{content}\n{found[2]}", text)


def contents() -> Mapping[str, str]:
    """The text for each pair of markers, from the figures that are kept; empty where there are none."""
    now, before, peers = (Figures.read(path) for path in (MEASURED, BASELINE, PEERS))
    found = {}
    if now.values:
        about = f"{conditions(now)}. First the ratio to {before.about['code']}{normalised(now, before)}."
        found["bench"] = f"{about}\n\n{tables(now, before)}"
        found["scale"] = f"{conditions(now)}.\n\n{scale_table(now)}"
    if peers.values:
        about = f"{conditions(peers)}; {peers.about['chunks']:,} chunks. {' '.join(peers.about['remarks'])}"
        found["peers"] = f"{about}\n\n{peers_tables(peers)}"
    return found


def pages() -> Iterator[tuple[Path, str]]:
    """The pages, as they are to be."""
    made = contents()
    for name, parts in PARTS.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        for part in parts:
            text = replaced(text, part, made[part]) if part in made else text
        yield DOCS / name, text


# -- curves


def drawings(now: Figures) -> Iterator[tuple[Path, str]]:
    """The drawings of docs/scale.md."""
    for curve in CURVES:
        yield DOCS / f"scale-{curve.name}.svg", chart(curve, now)


CURVES = (
    Curve(
        "latency",
        "An answer, p50",
        "ms",
        {
            f"{mode}, {reader}": f"answer/{mode}/{reader}/{{}}/p50_ms"
            for mode in ("fast", "balanced", "thorough")
            for reader in ("no filter", "5 % tenant")
        },
    ),
    Curve(
        "cpu",
        "Processor time of an answer",
        "ms",
        {
            f"{mode}, {reader}": f"answer/{mode}/{reader}/{{}}/cpu_ms"
            for mode in ("fast", "balanced", "thorough")
            for reader in ("no filter", "5 % tenant")
        },
    ),
    Curve("memory", "Memory of a process", "MB", {"all": "memory/{}/rss_mb", "its own alone": "memory/{}/private_mb"}),
    Curve("disk", "The index on disk", "MB", {"index": "index/{}/disk_mb"}),
    Curve("build", "Index build, embedding left out", "chunks/s", {"built": "index/{}/chunks_per_s"}),
    Curve(
        "update",
        "One document changed",
        "ms",
        {
            "the change": "update/{}/apply_ms",
            "next search, same process": "update/{}/next_ms",
            "next search, another process": "update/{}/next_elsewhere_ms",
            "any other search": "update/{}/steady_ms",
        },
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--figures", type=Path, default=CACHE / "figures.json", help="of `make bench`")
    parser.add_argument("--peers", type=Path, default=CACHE / "peers.json", help="of `make bench-peers`")
    args = parser.parse_args()
    for made, kept in ((args.figures, MEASURED), (args.peers, PEERS)):
        if made.exists():
            Figures.read(made).write(kept)
    for path, text in (*pages(), *drawings(Figures.read(MEASURED))):
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
