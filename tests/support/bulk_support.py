"""Systems with bulk jobs over a model that counts words, and what is compared of two systems."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from opx.domain.queries import QueryConfig
from opx.ingestion.events import EventOutcome
from opx.operations.system import System
from opx.ports.tables import KEYS
from opx.settings import Settings
from opx.system import bootstrap
from opx_bulk.capability import Bulk
from opx_bulk.job import BulkJob, BulkKind, BulkReport, BulkWork
from opx_bulk.local import LocalRunner
from tests.support.fakes import WordsEmbedder

FOLDER = "documents/runbooks/procedures/"
INGEST = BulkWork(kind=BulkKind.INGEST)
QUESTIONS = ("disk full", "kafka lag", "certificate expired", "pool exhausted")
UNLIKELY = 0.01
TOPICS = ("Disk full", "Kafka lag", "Certificate expired", "Pool exhausted", "DNS slow")


class OtherWords(WordsEmbedder):
    """Another model."""

    model_id = "words/64/other"


def a_model(model: str, _path: str, _dimension: int) -> WordsEmbedder:
    return OtherWords() if model == "other" else WordsEmbedder()


def system_at(home: Path, **ports: Any) -> System:
    return bootstrap(Settings(home=str(home)), **{"embedder": WordsEmbedder(), "new_embedder": a_model, **ports})


def page(number: int, text: str = "") -> bytes:
    topic = TOPICS[number % len(TOPICS)]
    body = text or f"Host web-{number} reports {topic.lower()}."
    steps = f"1. Look at web-{number}.\n2. Restart service-{number}.\n"
    return f"# {topic} {number}\n\n{body}\n\n## Fix\n\n{steps}\nservice:web-{number}|DEPENDS_ON|service:db\n".encode()


def put_pages(system: System, count: int, *, quiet: bool = True) -> list[str]:
    """Puts documents, without events unless not `quiet`; returns their keys."""
    store = system.corpus.quiet_store if quiet else system.store
    keys = [f"{FOLDER}page-{number:03}.md" for number in range(count)]
    for number, key in enumerate(keys):
        store.put(key, page(number))
    return keys


def drained(system: System) -> list[EventOutcome]:
    assert system.ingestion.drain is not None
    return list(system.ingestion.drain.run())


@contextmanager
def opened(home: Path) -> Iterator[Bulk]:
    """The bulk jobs of a home, in a child process."""
    with system_at(home) as system:
        yield system.part(Bulk.of)


def runner(system: System, *, processes: int = 0) -> LocalRunner:
    home = system.settings.home_path
    return LocalRunner(
        system.part(Bulk.of).stages,
        system.work,
        opened=partial(opened, home) if processes else None,
        processes=processes,
        sleep=lambda _: None,
    )


def begun(system: System, work: BulkWork = INGEST) -> BulkJob:
    return system.part(Bulk.of).begin(work, "tester")


def run(system: System, work: BulkWork = INGEST, *, processes: int = 0) -> BulkReport:
    """Starts a job, or continues it, and runs it to its end."""
    return runner(system, processes=processes).run(begun(system, work).job_id)


def contents(system: System) -> dict[str, Any]:
    """Catalog, index, chunk files, graph and answers of a system, without moments of time."""
    heads = sorted(system.tables.table(KEYS).query("global", index="scope-index"), key=lambda head: head["source"])
    catalog = {head["source"]: (head.get("documentId"), head["state"]) for head in heads if head.get("state")}
    entries = {head["source"]: sorted(system.index.references(head["documentKey"])) for head in heads}
    chunks = {info.key: info.etag for info in system.store.list("chunks/")}
    graph = {head["source"]: _statements(system, head["documentKey"]) for head in heads}
    service, config = system.questions.for_reader(), QueryConfig(min_confidence=0.0, max_results=100)
    answers = {
        question: sorted(
            (one.document_id, round(one.confidence, 4))
            for one in service.search(question, config).results
            if one.confidence > UNLIKELY  # of those behind, equal scores decide which are among the candidates
        )
        for question in QUESTIONS
    }
    return {"catalog": catalog, "entries": entries, "chunks": chunks, "graph": graph, "answers": answers}


def _statements(system: System, key_id: str) -> Any:
    found = system.graph.store.statements_of(key_id)
    return sorted(node.key for node in found.nodes), sorted((edge.source, edge.target) for edge in found.edges)


def job_files(system: System, job_id: str) -> list[str]:
    """Names of the files of a job, without its folder."""
    prefix = f"bulk/{job_id}/"
    return [info.key.removeprefix(prefix) for info in system.store.list(prefix)]


def json_file(system: System, key: str) -> Mapping[str, Any]:
    with system.store.open(key) as stream:
        found: Mapping[str, Any] = json.load(stream)
    return found


if __name__ == "__main__":  # a process that tests end at any moment
    with system_at(Path(sys.argv[1])) as one:
        run(one, BulkWork(kind=BulkKind(sys.argv[2]), model=sys.argv[3]), processes=2)
