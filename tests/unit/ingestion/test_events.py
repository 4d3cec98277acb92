"""Events of objects: read from Amazon's form, written in it, refused otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.errors import InvalidInputError
from opx.ingestion.events import SEQUENCER_WIDTH, ObjectEvent, parse_event

calm = settings(deadline=None)  # a busy machine is no failure


def an_envelope(**changes: Any) -> dict[str, Any]:
    """EventBridge's envelope for an object that was put, with some fields changed."""
    return {
        "version": "0",
        "id": "17793124-05d4-b198-2fde-7ededc63b103",
        "detail-type": "Object Created",
        "source": "aws.s3",
        "account": "111122223333",
        "time": "2026-03-01T12:00:00Z",
        "region": "eu-central-1",
        "resources": ["arn:aws:s3:::opx-knowledge-corpus"],
        "detail": {
            "version": "0",
            "bucket": {"name": "opx-knowledge-corpus"},
            "object": {"key": "documents/a b+c.md", "size": 5, "etag": "0", "sequencer": "00617F08299329D189"},
            "reason": "PutObject",
        },
        **changes,
    }


def parsed(**changes: Any) -> ObjectEvent:
    return parse_event(json.dumps(an_envelope(**changes)))


def test_a_created_object_is_read_as_amazon_reports_it() -> None:
    assert parsed() == ObjectEvent("documents/a b+c.md", deleted=False, sequencer="00617F08299329D189".rjust(40, "0"))


def test_a_deleted_object_is_read_as_amazon_reports_it() -> None:
    detail = {"object": {"key": "documents/x.md", "sequencer": "1"}, "deletion-type": "Delete Marker Created"}
    assert parsed(**{"detail-type": "Object Deleted", "detail": detail}).deleted


def test_a_key_is_taken_as_it_is_and_not_decoded() -> None:
    assert parsed(detail={"object": {"key": "documents/100%25+x"}}).key == "documents/100%25+x"


@calm
@given(st.text(min_size=1), st.booleans(), st.integers(0, 16**SEQUENCER_WIDTH - 1))
def test_an_event_is_read_as_it_was_written(key: str, deleted: bool, number: int) -> None:
    event = ObjectEvent(key, deleted, f"{number:0{SEQUENCER_WIDTH}X}")
    assert parse_event(event.to_json()) == event


@calm
@given(st.integers(0, 16**20), st.integers(0, 16**20))
def test_sequencers_sort_as_their_numbers(first: int, second: int) -> None:
    texts = [parsed(detail={"object": {"key": "k", "sequencer": f"{n:x}"}}).sequencer for n in (first, second)]
    assert (texts[0] < texts[1]) == (first < second)


def test_an_event_without_sequencer_sorts_before_all_others() -> None:
    assert parsed(detail={"object": {"key": "k"}}).sequencer == "0" * SEQUENCER_WIDTH


def test_a_sidecar_is_an_event_of_its_document() -> None:
    event = ObjectEvent("documents/x.md.metadata.json", deleted=False, sequencer="")
    assert (event.is_sidecar, event.document_key) == (True, "documents/x.md")


def test_a_document_is_no_sidecar() -> None:
    event = ObjectEvent("documents/metadata.json", deleted=False, sequencer="")
    assert (event.is_sidecar, event.document_key) == (False, "documents/metadata.json")


@pytest.mark.parametrize(
    "body",
    [
        "",
        "not json",
        "[]",
        "null",
        '"text"',
        "{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        "1" * 5000,
        json.dumps(an_envelope(source="aws.ec2")),
        json.dumps(an_envelope(**{"detail-type": "Object Restore Completed"})),
        json.dumps(an_envelope(**{"detail-type": ["Object Created"]})),
        json.dumps(an_envelope(detail=None)),
        json.dumps(an_envelope(detail={})),
        json.dumps(an_envelope(detail=[])),
        json.dumps(an_envelope(detail={"object": "x"})),
        json.dumps(an_envelope(detail={"object": {"sequencer": "1"}})),
        json.dumps(an_envelope(detail={"object": {"key": ""}})),
        json.dumps(an_envelope(detail={"object": {"key": None}})),
        json.dumps(an_envelope(detail={"object": {"key": ["documents/x"]}})),
        json.dumps(an_envelope(detail={"object": {"key": "x", "sequencer": None}})),
        json.dumps(an_envelope(detail={"object": {"key": "x", "sequencer": 5}})),
        json.dumps(an_envelope(detail={"object": {"key": "x", "sequencer": "0" * (SEQUENCER_WIDTH + 1)}})),
        json.dumps({"Event": "s3:TestEvent", "Bucket": "opx-knowledge-corpus"}),
    ],
)
def test_anything_else_is_refused(body: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_event(body)


@calm
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)
    )
)
def test_no_json_makes_it_raise_another_error(detail: object) -> None:
    try:
        parsed(detail=detail)
    except InvalidInputError:
        return
    assert isinstance(detail, dict)
