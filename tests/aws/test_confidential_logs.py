"""Nothing of a question or a document gets into the log, whatever goes wrong with it."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from opx.errors import StoreUnavailableError
from opx.runtime.deadlines import deadline
from opx.runtime.metrics import SERVICE
from tests.aws.cloud import BUCKET, Cloud
from tests.doubles.http_double import Response
from tests.support.agent_calls import a_function_event
from tests.support.api_requests import call
from tests.support.fakes import FakeContext
from tests.support.telemetry_support import log_lines, metric_lines

CANARY = "xylophone"
DOCUMENT = "documents/runbooks/disk.md"
TEXT = f"# Disk full with {CANARY}\n\nMove the {CANARY} to another volume."
REFUSED = {
    "error": {
        "type": "search_phase_execution_exception",
        "reason": f"failed to parse '{CANARY}'",
        "root_cause": [{"type": "query_shard_exception", "reason": f"can't read '{CANARY}'"}],
    },
    "status": 400,
}

Captured = pytest.CaptureFixture[str]


def written(capsys: Captured) -> str:
    """Everything since the last look, wherever it went: other libraries' loggers have no handler here."""
    captured = capsys.readouterr()
    return captured.out + captured.err


def ingestion_output(cloud: Cloud, capsys: Captured, text: str = TEXT) -> str:
    """Output of the functions while they ingested the document and answered a query about it."""
    cloud.put(DOCUMENT, text)
    cloud.deliver()
    cloud.ask(f"where is the {CANARY}?")
    return written(capsys)


def assert_confidential(output: str) -> None:
    assert CANARY not in output.lower()
    assert metric_lines(output)
    for line in (*log_lines(output), *metric_lines(output)):
        assert line["correlation_id"]
        assert line["function_request_id"] == FakeContext().aws_request_id


def test_the_canary_would_be_seen(cloud: Cloud, capsys: Captured) -> None:
    cloud.ask("disk")
    logging.getLogger(f"{SERVICE}.anywhere").info("asked for the %s", CANARY)
    assert CANARY in written(capsys)


def test_ordinary_day_is_silent(cloud: Cloud, capsys: Captured) -> None:
    assert_confidential(ingestion_output(cloud, capsys))


class TestDocuments:
    @pytest.mark.parametrize(
        "text",
        [
            f"---\ncategory: {CANARY}\n---\n# A\n\nText.",
            f"---\ntitle: [{CANARY}\n---\n# A\n\nText.",
            f"---\nlastUpdated: {CANARY}\n---\n# A\n\nText.",
        ],
        ids=["unknown category", "broken front matter", "a date that is none"],
    )
    def test_refused_document_is_not_quoted(self, cloud: Cloud, capsys: Captured, text: str) -> None:
        assert_confidential(ingestion_output(cloud, capsys, text))

    def test_json_that_is_none_is_not_quoted(self, cloud: Cloud, capsys: Captured) -> None:
        cloud.put("documents/operations/incidents/1.json", f'{{"title": "{CANARY}", "content": {CANARY}')
        cloud.deliver()
        output = written(capsys)
        assert '"WARNING"' in output
        assert_confidential(output)

    def test_a_failing_parser_is_logged_without_its_message(
        self, cloud: Cloud, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*args: Any, **options: Any) -> Any:
            raise KeyError(CANARY)

        monkeypatch.setattr(cloud.services.ingestion.pipeline.reader, "read", broken)
        output = ingestion_output(cloud, capsys)
        assert "KeyError" in output
        assert_confidential(output)

    def test_a_failing_worker_is_logged_without_its_message(
        self, cloud: Cloud, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*args: Any, **options: Any) -> Any:
            raise ValueError(f"can't handle {CANARY}")

        monkeypatch.setattr(cloud.services.ingestion.worker, "process", broken)
        output = ingestion_output(cloud, capsys)
        assert "ValueError" in output
        assert_confidential(output)

    def test_field_that_the_index_refuses_is_not_quoted(self, cloud: Cloud, capsys: Captured) -> None:
        reason = f"failed to parse field [tier] of type [keyword] in document with id 'x'. Value: '{CANARY}'"
        cause = {"type": "illegal_argument_exception", "reason": f'For input string: "{CANARY}"'}
        error = {"type": "mapper_parsing_exception", "reason": reason, "caused_by": cause}
        refused = {"took": 1, "errors": True, "items": [{"index": {"_id": "x", "status": 400, "error": error}}]}
        cloud.search.inject(Response(200, refused), path="_bulk")
        output = ingestion_output(cloud, capsys)
        assert "mapper_parsing_exception" in output
        assert_confidential(output)

    def test_text_that_the_model_refuses_is_not_quoted(self, cloud: Cloud, capsys: Captured) -> None:
        cloud.bedrock.inject(a_refusal(), times=2)
        output = ingestion_output(cloud, capsys)
        assert "ValidationException" in output
        assert_confidential(output)

    def test_item_to_be_retried_is_named_with_its_message(
        self, cloud: Cloud, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def away(name: str) -> Any:
            raise StoreUnavailableError("can't read from bucket")

        monkeypatch.setattr(cloud.services.store, "head", away)
        cloud.put(DOCUMENT, TEXT)
        cloud.deliver()
        (line,) = [line for line in log_lines(written(capsys)) if line["level"] == "INFO"]
        assert line["message_ids"][0] in line["message"]
        assert DOCUMENT in line["message"]


class TestQuestions:
    @pytest.mark.parametrize("status", [400, 403, 500, 503])
    def test_search_that_fails_does_not_quote_the_question(self, cloud: Cloud, capsys: Captured, status: int) -> None:
        refusal = Response(status, REFUSED if status == 400 else {"message": "no"})
        cloud.search.inject(refusal, times=5, path="_msearch")
        with deadline(0.1):
            cloud.ask(f"where is the {CANARY}?")
        output = written(capsys)
        assert "IndexUnavailableError" in output or "IndexWakingError" in output
        assert_confidential(output)

    def test_legs_that_fail_do_not_quote_the_question(self, cloud: Cloud, capsys: Captured) -> None:
        cloud.search.inject(Response(200, {"took": 1, "responses": [REFUSED] * 3}), path="_msearch")
        cloud.ask(f"where is the {CANARY}?")
        output = written(capsys)
        assert "query_shard_exception" in output
        assert_confidential(output)

    def test_model_that_fails_does_not_quote_the_question(self, cloud: Cloud, capsys: Captured) -> None:
        cloud.bedrock.inject(a_refusal())
        cloud.ask(f"where is the {CANARY}?")
        output = written(capsys)
        assert "EmbeddingError" in output
        assert_confidential(output)

    @pytest.mark.parametrize(
        "query",
        [
            {"q": f"where is the {CANARY}?"},
            {"q": "disk", "thoroughness": CANARY},
            {"q": "disk", "category": CANARY},
            {"q": "disk", CANARY: CANARY},
        ],
        ids=["question", "mode", "category", "unknown parameter"],
    )
    def test_requests_of_the_api_are_not_quoted(self, cloud: Cloud, capsys: Captured, query: dict[str, str]) -> None:
        call(cloud.retrieve, "search", query=query, kbId="default")
        output = written(capsys)
        assert "ApiRequests" in output
        assert_confidential(output)

    @pytest.mark.parametrize("body", [{"query": CANARY}, f'{{"query": {CANARY}', {"query": "disk", "config": CANARY}])
    def test_bodies_of_the_api_are_not_quoted(self, cloud: Cloud, capsys: Captured, body: object) -> None:
        call(cloud.retrieve, "query", body=body, kbId="default")
        assert_confidential(written(capsys))

    @pytest.mark.parametrize(
        "arguments",
        [{"query": "disk", "max_results": CANARY}, {"query": "disk", CANARY: "1"}, {"qurey": CANARY}],
        ids=["value", "name", "missing"],
    )
    def test_refused_arguments_are_not_quoted(self, cloud: Cloud, capsys: Captured, arguments: dict[str, str]) -> None:
        cloud.retrieve(a_function_event("search_runbooks", None, **arguments), FakeContext())
        output = written(capsys)
        assert "tool call: refused as invalid_argument" in output
        assert_confidential(output)

    @pytest.mark.parametrize(("tool", "code"), [(CANARY, "unknown_tool"), ("get_document_details", "not_found")])
    def test_unknown_tool_and_document_are_not_quoted(
        self, cloud: Cloud, capsys: Captured, tool: str, code: str
    ) -> None:
        cloud.retrieve(a_function_event(tool, document_id=CANARY), FakeContext())
        output = written(capsys)
        assert f"tool call: refused as {code}" in output
        assert_confidential(output)

    def test_tool_that_fails_does_not_quote_the_question(
        self, cloud: Cloud, capsys: Captured, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def broken(*_: Any, **__: Any) -> Any:
            raise RuntimeError(f"no {CANARY}")

        monkeypatch.setattr(cloud.services.questions, "for_reader", broken)
        cloud.ask(f"where is the {CANARY}?")
        output = written(capsys)
        assert "RuntimeError" in output
        assert_confidential(output)


def test_events_that_are_none_are_not_quoted(cloud: Cloud, capsys: Captured) -> None:
    cloud.send(f"the {CANARY}")
    cloud.send(json.dumps({"detail": {"object": {"key": f"documents/{'x' * 9}.md"}, "bucket": {"name": BUCKET}}}))
    cloud.deliver()
    output = written(capsys)
    assert "no event" in output
    assert_confidential(output)


def a_refusal() -> Response:
    """Bedrock's response to a malformed request."""
    message = f"Malformed input request: #/inputText: '{CANARY}' is not allowed"
    return Response(400, {"message": message}, (("x-amzn-ErrorType", "ValidationException"),))
