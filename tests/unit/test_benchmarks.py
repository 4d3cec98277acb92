"""Tries the benchmarks at a tiny size: no figure is judged, but each of them finds what it measures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import OpxError
from opx.facade.knowledge import Knowledge
from opx.operations.questions import GetAuditRecord, get_audit_record
from opx.ports import SearchFilter
from opx.settings import Settings
from opx.system import bootstrap
from tests.benchmarks import answering, homes, ingesting, served, updating
from tests.benchmarks.calibration import calibration
from tests.benchmarks.corpora import CLIENT, EVERYBODY, Corpus, Questions, load_passages, read_passages, unit

CHUNKS = 400
DIMENSION = 384


def embed(texts: Sequence[str]) -> list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """One or two random vectors for each text."""
    drawn = np.random.default_rng(1)
    return [unit(drawn.standard_normal((1 + len(text) % 2, DIMENSION), dtype=np.float32)) for text in texts]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(load_passages(tmp_path_factory.mktemp("passages"), embed, "random"))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, corpus: Corpus) -> Path:
    return homes.home_of(tmp_path_factory.mktemp("homes"), CHUNKS, corpus)


def test_a_corpus_is_the_same_each_time_and_has_repetitions_tiers_and_owners(corpus: Corpus) -> None:
    documents = list(corpus.documents(4_000))
    assert [one.to_markdown() for one in documents[:20]] == [one.to_markdown() for one in corpus.documents(160)]
    texts = [one.to_markdown() for one in documents]
    titles = {one.title for one in documents}
    assert 0.05 < 1 - len(titles) / len(texts) < 0.3  # nearly repeated
    assert len(set(texts)) > len(titles)  # and not equal
    assert {one.tier for one in documents} == {"internal", "specialized", "internet"}
    few = sum(one.owner in (EVERYBODY, CLIENT) for one in documents) / len(documents)
    assert 0.02 < few < 0.08
    assert {len(part.vectors) for one in documents for part in one.chunks} == {1, 2}


def test_chunks_have_the_fingerprints_of_ingestion(corpus: Corpus) -> None:
    entries = list(homes.change_of(corpus.document(3)).entries)
    assert all(entry.indexed.fingerprint for entry in entries)
    assert len({entry.indexed.fingerprint for entry in entries}) == len(entries)


def test_questions_are_all_different_and_of_every_kind() -> None:
    portions = Questions(CHUNKS).portions(3, 20)
    assert len({one.text for portion in portions for one in portion}) == 60
    assert all({one.kind for one in portion} == {"alert", "log", "person", "exact"} for portion in portions)
    assert portions == Questions(CHUNKS).portions(3, 20)
    assert [len(portion) for portion in Questions(CHUNKS).portions(5, 3)] == [3] * 5


def test_questions_of_a_collection_come_once_each(tmp_path: Path) -> None:
    rows = [f'{{"_id": "{n}", "text": "how to drain node {n}"}}' for n in range(5)]
    (tmp_path / "queries.jsonl").write_text("\n".join(rows), encoding="utf-8")
    found = list(islice(Questions(CHUNKS, tmp_path).all(), 12))
    assert sorted(one.text for one in found if one.kind == "collection") == [f"how to drain node {n}" for n in range(5)]


def test_passages_of_a_collection_are_read(tmp_path: Path) -> None:
    (tmp_path / "corpus.jsonl").write_text('{"_id": "a", "text": "' + "drain the node " * 30 + '"}', encoding="utf-8")
    assert len(read_passages(tmp_path)) == 1


def test_one_reader_sees_all_of_a_home_and_the_other_a_part(home: Path) -> None:
    with bootstrap(Settings(home=str(home))) as system:
        seen = {
            name: system.indexing.index.count(
                SearchFilter(scopes=system.corpus.projects.reader(Identity(**who)).visible)
            )
            for name, who in homes.READERS.items()
        }
    assert seen["no filter"] == homes.build_figures(home)["chunks"] == CHUNKS
    assert 0 < seen["5 % tenant"] < CHUNKS / 5


def test_a_home_that_was_used_is_as_it_was_made(tmp_path: Path, corpus: Corpus) -> None:
    made = homes.home_of(tmp_path, 40, corpus)
    with Knowledge.open(made, **homes.READERS["no filter"]) as knowledge:
        receipt = knowledge.answer("disk full").receipt_id
        assert receipt
    (made / "stray").write_text("", encoding="utf-8")
    index = (made / "index").stat().st_ino
    assert homes.home_of(tmp_path, 40, corpus) == made
    assert not (made / "stray").exists()
    assert (made / "index").stat().st_ino == index
    with Knowledge.open(made, **homes.READERS["no filter"]) as knowledge, pytest.raises(OpxError):
        knowledge.call(get_audit_record, GetAuditRecord(receipt_id=receipt))


def test_passages_are_found_in_documents_that_can_be_read(home: Path) -> None:
    reader = Identity(**homes.READERS["no filter"])
    with bootstrap(Settings(home=str(home))) as system:
        found = system.questions.for_reader(reader).search("drain the node", QueryConfig(min_confidence=0)).results
        documents = system.questions.documents
        texts = [documents.outline(system.corpus.projects.reader(reader), one.document_id)[1].text for one in found]
    assert texts
    assert all(one.content in text for one, text in zip(found, texts, strict=True))


def test_a_large_home_has_the_documents_that_its_questions_find(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(homes, "WITH_DOCUMENTS", 0)
    made = homes.home_of(tmp_path, CHUNKS, corpus)
    homes.keep_found(made, CHUNKS, corpus, [3], 4)
    reader = Identity(**homes.READERS["no filter"])
    with bootstrap(Settings(home=str(made))) as system:
        texts = [one.text for one in islice(Questions(CHUNKS, seed=3).all(), 4)]
        answers = [system.questions.for_reader(reader).search(text, QueryConfig(min_confidence=0)) for text in texts]
        found = {one.document_id for answer in answers for one in answer.results}
        kept = {one for one in found if system.corpus.catalog.find(one)}
        assert found
        assert kept == found
        assert len(kept) < CHUNKS / 8


def test_answers_are_measured_in_every_mode(home: Path) -> None:
    found = answering.measure(home, "no filter", CHUNKS, 2)
    assert all(found[f"{mode}/{measure}"] > 0 for mode in answering.MODES for measure in ("p50_ms", "p95_ms", "cpu_ms"))
    assert found["rss_mb"] > found["private_mb"] > 0


def test_changes_are_found_here_and_in_another_process(home: Path, corpus: Corpus) -> None:
    found = updating.measure(home, CHUNKS, 1, corpus)
    assert found["missed"] == found["missed_answers"] == 0
    assert found["apply_ms"] > 0 < found["next_elsewhere_ms"]


def test_a_change_that_is_not_made_is_missed(home: Path, corpus: Corpus) -> None:
    with bootstrap(Settings(home=str(home))) as system:
        search = updating.search_of(system, Questions(CHUNKS, seed=2).portions(1, 4)[0])
        assert not search(updating.word(77))[1]
        system.indexing.index.apply([updating.Marked(corpus.document(10_000)).change(77)])
        assert search(updating.word(77))[1]
        system.indexing.index.apply([updating.Marked(corpus.document(10_000)).removal()])
        assert not search(updating.word(77))[1]


def test_ingestion_and_embedding_are_measured(corpus: Corpus) -> None:
    found = ingesting.ingestion(corpus, 2)
    assert found["chunks"] >= 16
    assert found.keys() >= {"document_cpu_ms", "chunk_cpu_ms"}
    assert ingesting.embedding(corpus, 3)["vectors_each"] >= 1


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[served.Server]:
    with served.opx_serve(home, "--workers", "1") as one:
        yield one


def test_a_server_answers_clients_as_it_answers_one(server: served.Server) -> None:
    found = served.measure(server, CHUNKS, 0.3, clients=(2,))
    assert found["2/errors"] == 0
    assert found["2/answers_per_s"] > 0 < found["2/cpu_ms"]


def test_replies_with_passages_alone_have_the_same_results(server: served.Server) -> None:
    with closing(served.Client(server.address)) as whole, closing(served.Client(server.address, budget=0)) as passages:
        assert whole.found("drain the node") == passages.found("drain the node")


def test_a_refused_question_ends_the_measurement(server: served.Server) -> None:
    with closing(served.Client(server.address)) as client, pytest.raises(RuntimeError, match="error"):
        client.found("")


def test_a_calibration_takes_time() -> None:
    assert calibration()["cpu_ms"] > 0
