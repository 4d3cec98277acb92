"""Documents whose chunks have contexts written by a language model, all the way from an object to a search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
import pytest

from opx.domain.documents import RemarkKind
from opx.errors import ModelError
from opx.ports.models import ChatReply, ChatRequest, read_answer
from tests.e2e.systems import SystemUnderTest, a_system, chunk_key

KEY = "documents/runbooks/pay.md"
TEXT = "# Restarting\n\nThen restart it.\n"


class Writer:
    """Writes that everything is about the payment gateway."""

    name = "writer"

    def __init__(self) -> None:
        self.failure = ""
        self.calls = 0

    def ask(self, request: ChatRequest) -> ChatReply:
        self.calls += 1
        if self.failure:
            raise ModelError(self.failure)
        return ChatReply(
            read_answer(request.answer, {"contexts": [{"id": 0, "context": "Concerns the payment gateway."}]})
        )


@contextmanager
def a_contextual_system(
    backend: str, home: Path, session: boto3.Session, writer: Writer, context_model: str = "writer"
) -> Iterator[SystemUnderTest]:
    url = "http://127.0.0.1:9/v1"
    with a_system(backend, home, session, context_model=context_model, chat_url=url) as system:
        system.services.ingestion.new_chat = lambda _model: writer
        yield system


@pytest.fixture
def writer() -> Writer:
    return Writer()


@pytest.mark.parametrize("backend", ["embedded", "nextgen"])
def test_a_chunk_is_found_by_what_was_written_about_it_and_read_without(
    backend: str, tmp_path: Path, aws: boto3.Session, writer: Writer
) -> None:
    with a_contextual_system(backend, tmp_path, aws, writer) as system:
        system.put(KEY, TEXT)
        [outcome] = system.work()
        assert outcome.remarks == ()
        assert system.found("payment gateway") == [system.document(KEY).location]
        [entry] = system.entries(KEY)
        assert "gateway" not in entry.chunk.text
        system.assert_consistent(KEY)


def test_a_model_that_fails_keeps_no_document_out(tmp_path: Path, aws: boto3.Session, writer: Writer) -> None:
    writer.failure = "the model is away"
    with a_contextual_system("embedded", tmp_path, aws, writer) as system:
        system.put(KEY, TEXT)
        [outcome] = system.work()
        assert outcome.result == "ingested"
        assert system.found("restart") == [system.document(KEY).location]
        [remark] = system.document(KEY).remarks
    assert remark.kind is RemarkKind.MISSING_CONTEXT
    assert remark.text == "contexts: 1 missing: the model is away"


def test_ids_and_files_do_not_depend_on_contexts(tmp_path: Path, aws: boto3.Session, writer: Writer) -> None:
    files = []
    for folder, model in (("with", "writer"), ("without", "")):
        with a_contextual_system("embedded", tmp_path / folder, aws, writer, model) as system:
            system.put(KEY, TEXT)
            system.work()
            with system.silent.open(chunk_key(KEY, system.document(KEY).document_id)) as stream:
                files.append((system.document(KEY).document_id, stream.read()))
    assert files[0] == files[1]


def test_choosing_a_model_ingests_unchanged_documents_again(tmp_path: Path, aws: boto3.Session, writer: Writer) -> None:
    for model, results in (("", "ingested"), ("writer", "ingested"), ("writer", "unchanged"), ("", "ingested")):
        with a_contextual_system("embedded", tmp_path, aws, writer, model) as system:
            system.put(KEY, TEXT)
            assert [outcome.result for outcome in system.work()] == [results]
            assert bool(system.found("payment gateway")) == bool(model)
    assert writer.calls == 1


def test_document_that_is_ingested_again_has_its_contexts_from_the_cache(
    tmp_path: Path, aws: boto3.Session, writer: Writer
) -> None:
    with a_contextual_system("embedded", tmp_path, aws, writer) as system:
        for _ in range(2):
            system.put(KEY, TEXT)
            system.work()
            system.delete(KEY)
            system.work()
        assert system.entries(KEY) == []
    assert writer.calls == 1


def test_missing_contexts_are_written_when_the_unchanged_document_comes_again(
    tmp_path: Path, aws: boto3.Session, writer: Writer
) -> None:
    with a_contextual_system("embedded", tmp_path, aws, writer) as system:
        results = []
        for writer.failure in ("the model is away", "", ""):
            system.put(KEY, TEXT)
            results += [outcome.result for outcome in system.work()]
        assert results == ["ingested", "ingested", "unchanged"]
        assert system.document(KEY).remarks == ()
        assert system.found("payment gateway") == [system.document(KEY).location]
