"""Times questions as of a past date, by the number of versions replaced since: `python -m tests.benchmarks.as_of`.

The corpus is that of `search_speed`, made up, ingested on the embedded stores with an embedder of hashed words. Vectors of
replaced versions come from the cache, as they do for 90 days.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from opx.domain.ids import iso_time
from opx.domain.queries import QueryConfig
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_testing.fake_time import FakeTime
from tests.benchmarks.search_speed import Corpus, percentile
from tests.support.cli_support import WordEmbedder

WORDS = 800
"""Words of a document: about four chunks."""

QUESTIONS = 30


def _put(services: System, corpus: Corpus, numbers: range, time_: FakeTime) -> None:
    for number in numbers:
        text = f"# {corpus.text(5)}\n\n" + "\n\n".join(corpus.text(100) for _ in range(WORDS // 100))
        services.store.put(f"documents/runbooks/procedures/{number}.md", text.encode())
    drain = services.ingestion.drain
    assert drain is not None
    for outcome in drain.run():
        assert outcome.result == "ingested", outcome
    time_.sleep(60)


def _answer_times(services: System, questions: list[str], as_of: str) -> dict[str, float]:
    service = services.questions.for_reader(recorded=False)
    config = QueryConfig(as_of=as_of, min_confidence=0.0)
    taken, worked, loading = [], [], []
    for question in questions:
        started, cpu = time.perf_counter(), time.process_time()
        answer = service.search(question, config)
        taken.append(1000 * (time.perf_counter() - started))
        worked.append(1000 * (time.process_time() - cpu))
        loading.append(answer.timings_ms.get("as_of", 0.0))
    return {
        "p50_ms": round(percentile(taken, 50), 1),
        "p95_ms": round(percentile(taken, 95), 1),
        "cpu_p50_ms": round(percentile(worked, 50), 1),
        "first_ms": round(taken[0], 1),
        "loading_p50_ms": round(percentile(loading, 50), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1500)
    parser.add_argument("--replaced", type=int, nargs="+", default=[0, 10, 100, 400])
    given = parser.parse_args()
    corpus, clock = Corpus(), FakeTime()
    with (
        tempfile.TemporaryDirectory() as home,
        bootstrap(Settings(home=str(Path(home))), clock=clock.clock, embedder=WordEmbedder()) as services,
    ):
        _put(services, corpus, range(given.documents), clock)
        questions = [corpus.text(8) for _ in range(QUESTIONS)]
        _answer_times(services, questions, "")
        print(json.dumps({"documents": given.documents, "as_of": "now", **_answer_times(services, questions, "")}))
        at, done = iso_time(clock.clock()), 0
        clock.sleep(60)
        for replaced in given.replaced:
            _put(services, corpus, range(done, replaced), clock)
            done = replaced
            figures = _answer_times(services, questions, at)
            print(json.dumps({"documents": given.documents, "replaced_since": replaced, **figures}))


if __name__ == "__main__":
    main()
