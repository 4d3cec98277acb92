"""Tries tables, drawings and documentation of measured figures, and the engines of others that need no package."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks import report
from tests.benchmarks.curves import COLOURS, HEIGHT, WIDTH, Curve, chart
from tests.benchmarks.figures import BASELINE, MEASURED, Figures, by_size, conditions, peers_tables, tables
from tests.benchmarks.peers.engines import AfternoonPlus, Embedding, Fts5, Piece, fused_by_rank

NOW = Figures(
    {
        "index/1000/disk_mb": 5.0,
        "index/100000/disk_mb": 400.0,
        "answer/balanced/no filter/100000/p50_ms": 14.3,
        "answer/balanced/no filter/100000/p95_ms": 22.04,
        "answer/balanced/no filter/1000/p50_ms": 9.0,
        "serve/50/answers_per_s": 78.0,
    }
)


def test_a_cell_has_the_ratio_of_its_first_figure_before_its_figures() -> None:
    lines = list(by_size(NOW.sizes()).lines(NOW, Figures.read(BASELINE)))
    assert lines[0] == "|  | 1,000 chunks | 100,000 chunks |"
    assert "| balanced, no filter: p50 / p95, ms | 9.0 | 0.50 (14.3 / 22.0) |" in lines
    assert "| index on disk, MB | 5 | 0.76 (400) |" in lines
    assert len(lines) == 4  # rows without figures are left out


def test_tables_of_clients_have_ratios() -> None:
    assert "| answers a second |  |  | 2.00 (78.0) |" in tables(NOW, Figures.read(BASELINE))


def test_tables_of_engines_have_their_kinds_of_questions() -> None:
    found = peers_tables(Figures({"quality/opx/all": 0.8534, "quality/lancedb/all": 0.8174, "engine/opx/wrong": 0.0}))
    assert "| nDCG@10, all | 0.853 |  |  | 0.817 |" in found
    assert "| results that the reader may not see | 0 |" in found


def test_engines_are_compared_with_the_product_over_http_from_one_client_on_and_with_passages_alone() -> None:
    servers = {"http/opx": 40.0, "passages/opx": 32.0, "http/lancedb": 24.0, "passages/lancedb": 24.0}
    found = peers_tables(Figures({f"{name}/1/cpu_ms": value for name, value in servers.items()}))
    assert "| HTTP, 1 client: CPU, ms an answer | 1.00 (40.0) |  |  | 0.60 (24.0) |" in found
    assert "| HTTP, `budget: 0`, 1 client: CPU, ms an answer | 1.00 (32.0) |  |  | 0.75 (24.0) |" in found


def test_costs_of_documents_and_chunks_are_shown_once_they_are_measured() -> None:
    costs = {"ingest/document_cpu_ms": 20.0, "ingest/chunk_cpu_ms": 0.5}
    assert "| ingestion without a model's time | 20.0 | 0.5 |" in tables(Figures(costs), Figures())
    assert "ms CPU a document" not in tables(NOW, Figures())


def test_figures_are_written_and_read_again(tmp_path: Path) -> None:
    Figures({"a": 1.23456789}, {"code": "abc"}).write(tmp_path / "new" / "figures.json")
    assert Figures.read(tmp_path / "new" / "figures.json") == Figures({"a": 1.235}, {"code": "abc"})
    assert Figures.read(tmp_path / "missing.json") == Figures()


def test_a_busy_machine_is_named() -> None:
    about = {"made": "2026-01-31", "code": "abc", "machine": "2 cores", "calibration_ms": 60.0}
    assert "busy" in conditions(Figures({}, {**about, "load": 9.0}))
    assert "busy" not in conditions(Figures({}, {**about, "load": 1.0}))


# -- documentation


def test_text_outside_of_the_markers_stays() -> None:
    text = "before\n<!-- a: begin -->\nold\n<!-- a: end -->\nafter\n"
    assert report.replaced(text, "a", "new") == "before\n<!-- a: begin -->\nnew\n<!-- a: end -->\nafter\n"
    with pytest.raises(ValueError, match="no markers"):
        report.replaced(text, "b", "new")


def test_the_documentation_has_the_figures_that_are_kept() -> None:
    """After a run: `make bench-report`."""
    for path, text in report.pages():
        assert path.read_text(encoding="utf-8") == text, path.name
    for path, text in report.drawings(Figures.read(MEASURED)):
        assert path.read_text(encoding="utf-8") == text, path.name


# -- drawings

CURVE = Curve(
    "latency", "An answer", "ms", {"balanced": "answer/balanced/no filter/{}/p50_ms", "other": "none/{}/p50_ms"}
)


def test_a_line_goes_through_its_figures_and_one_without_is_left_out() -> None:
    drawn = chart(CURVE, NOW)
    assert drawn.count("<polyline") == 1
    assert re.findall(r"<title>balanced, ([\d,]+) chunks: ([\d.]+)</title>", drawn) == [
        ("1,000", "9"),
        ("100,000", "14.3"),
    ]
    places = [(float(x), float(y)) for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', drawn)]
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in places)
    assert places[0][0] < places[1][0]
    assert places[0][1] > places[1][1]


def test_colours_can_be_seen_on_white_and_on_black() -> None:
    for colour in (*COLOURS, "#7a7a7a"):
        light = _luminance(colour)
        assert min(1.05 / (light + 0.05), (light + 0.05) / 0.05) >= 3, colour


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# -- engines of others

RESTART = Piece.of("a#1", "KafkaLagHigh", "restart the consumer group", "everybody", [np.eye(384)[0], np.eye(384)[1]])
ROTATE = Piece.of("b#1", "DiskFull", "rotate the logs and truncate", "p01", [np.eye(384)[2]])


@pytest.fixture
def embedding(tmp_path: Path) -> Embedding:
    found = Embedding(tmp_path / "model")
    found.known = {
        question: np.eye(384, dtype=np.float32)[at] for question, at in (("kafka", 1), ("disk", 2), ("x", 5))
    }
    return found


@pytest.mark.parametrize("engine", [Fts5, AfternoonPlus])
def test_words_and_any_window_find_a_chunk_that_the_reader_may_see(
    engine: type[Fts5], tmp_path: Path, embedding: Embedding
) -> None:
    one = engine(tmp_path, embedding)
    one.build([RESTART, ROTATE])
    assert one.search("kafka", None, 1) == ["a#1"]
    assert one.search("disk", None, 1) == ["b#1"]
    assert one.search("disk", ["everybody"], 10) == ["a#1"]
    one.change([Piece.of("b#1", "DiskFull", "extend the volume", "p01", [np.eye(384)[5]])])
    assert one.search("x", None, 1) == ["b#1"]


def test_identifiers_are_split_for_the_words_of_afternoon_plus(tmp_path: Path, embedding: Embedding) -> None:
    plain, plus = tmp_path / "plain", tmp_path / "plus"
    found = []
    for folder, engine in ((plain, Fts5), (plus, AfternoonPlus)):
        folder.mkdir()
        one = engine(folder, embedding)
        one.build([RESTART, ROTATE])
        found.append("b#1" in one._by_words("disk", None))
    assert found == [False, True]


def test_ranks_of_both_legs_count() -> None:
    assert fused_by_rank(["a", "b"], ["b", "c"]) == ["b", "a", "c"]
