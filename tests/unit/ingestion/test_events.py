"""Events of objects, and names of pulled documents' objects: read, written, refused otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain.sources import SourceDocument
from opx.errors import InvalidInputError
from opx.ingestion.events import SEQUENCER_WIDTH, ObjectEvent, parse_event
from opx.ingestion.object_names import object_name, pulled_key, pulled_name, with_extension

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


CATEGORY = "vendor/linux"
CONTENTS = st.sampled_from(["text", b"bytes", {"a": 1}])
KEYS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.from_regex(r"[a-zA-Z%~./ -]{1,12}(~|\.md|\.json|\.pdf|\.html|\.txt){0,3}", fullmatch=True),
)


def stored(key: str, content: str | bytes | Mapping[str, int]) -> str:
    """The object's key, as the puller and the writer make it."""
    name = pulled_name("src", SourceDocument(key, content))
    return f"documents/{CATEGORY}/{with_extension(name, content)}"


@pytest.mark.parametrize(
    ("key", "content", "name"),
    [
        ("CVE-2024-23113", "text", "CVE-2024-23113~.md"),
        ("guide", {}, "guide~.json"),
        ("guide.md", "text", "guide.md"),
        ("a.pdf", b"", "a.pdf"),
        ("a.pdf", "text", "a.pdf~.md"),
        ("v1.2", "text", "v1.2~.md"),
        ("docs/a b%2F.md", "text", "docs/a b%252F.md"),
        ("x.org/?a=1&b", "text", "x.org/%3Fa=1%26b~.md"),
    ],
)
def test_key_is_read_back_from_the_name(key: str, content: str | bytes | dict[str, int], name: str) -> None:
    assert stored(key, content) == f"documents/{CATEGORY}/sources/src/{name}"
    assert pulled_key(f"documents/{CATEGORY}/sources/src/{name}", CATEGORY) == key


@given(KEYS, CONTENTS)
def test_every_key_is_read_back_unless_it_was_hashed(key: str, content: str | bytes | dict[str, int]) -> None:
    found = pulled_key(stored(key, content), CATEGORY)
    assert found == key or object_name(key).startswith(found[:32])


@given(st.lists(st.tuples(KEYS, CONTENTS), min_size=2, max_size=2, unique_by=lambda one: one[0]))
def test_documents_of_different_keys_are_different_objects(
    documents: list[tuple[str, str | bytes | dict[str, int]]],
) -> None:
    (one, first), (other, second) = documents
    assert stored(one, first) != stored(other, second)


@pytest.mark.parametrize("name", ["a.md", "webhooks/x/a.md", "sources/a.md", "other/sources/x/IT-25~.md"])
def test_objects_that_no_pull_made_have_no_key(name: str) -> None:
    assert pulled_key(f"documents/{CATEGORY}/{name}", CATEGORY) == ""


def test_same_key_in_another_category_is_no_pull() -> None:
    assert pulled_key("documents/web/blogs/sources/x/IT-25~.md", CATEGORY) == ""
