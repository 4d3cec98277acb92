"""Progress of ingestion as lines, where there is no terminal."""

from __future__ import annotations

import time

import pytest

from opx.edges.cli.reporting import LineReporter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic", found)
    return found


def test_a_document_in_progress_gets_a_line_after_a_silent_time(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    reporter = LineReporter()
    reporter.expect(3)
    for chunks in (8, 16, 24, 32):
        clock.now += 4
        reporter.embedding("documents/long.md", chunks)
    assert capsys.readouterr().err.splitlines() == [
        "ingesting 3 new or changed",
        "embedding  documents/long.md: 24 chunks so far",
    ]


def test_a_long_document_gets_lines_however_fast_it_is(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    reporter = LineReporter()
    for chunks in range(8, 1025, 8):
        reporter.embedding("documents/long.md", chunks)
    assert capsys.readouterr().err.splitlines() == [
        f"embedding  documents/long.md: {chunks} chunks so far" for chunks in ("512", "1,024")
    ]
