"""Editing texts and marking documents as reviewed over the HTTP API, on a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler
from lambdas.retrieve_knowledge.handler import make_handler as make_reader
from opx.domain.provenance import Channel, ChannelKind
from opx.ingestion.channels import channel_metadata
from opx.ingestion.files import OBJECT_METADATA
from opx.operations.system import System
from tests.support.agent_calls import a_system, id_of
from tests.support.api_requests import Handler, a_token, call, check_described, refusal

pytestmark = pytest.mark.usefixtures("json_logs")

SOURCE, KEY = "runbooks/vault.md", "clients/acme/documents/runbooks/vault.md"
TEXT = "---\nreview_by: 2020-01-01\nowner: storage\n---\n# Vault sealed\n\nRotate the logs.\n"
MINE, THEIRS = TEXT.replace("Rotate", "Move"), TEXT.replace("Rotate", "Compress")
ADA, BOB = (a_token("acme", sub=name) for name in ("ada", "bob"))
OTHER, READER = a_token("other"), a_token("acme", scopes="opx/read")


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with a_system(tmp_path, {KEY: TEXT, "documents/runbooks/disk.md": "# Disk full\n\nGrow it.\n"}) as system:
        yield system


@pytest.fixture
def handler(services: System) -> Handler:
    return make_handler(lambda: services)


def read(handler: Handler, source: str = SOURCE, caller: Any = ADA) -> tuple[int, Any]:
    return call(handler, "read_text", query={"source": source}, caller=caller)


def write(handler: Handler, text: str, expected: str, source: str = SOURCE, caller: Any = ADA) -> tuple[int, Any]:
    return call(handler, "write_text", body={"source": source, "text": text, "expected": expected}, caller=caller)


def ingested(services: System) -> None:
    assert services.ingestion.drain
    assert [one.error for one in services.ingestion.drain.run() if one.error] == []


def versions(services: System, caller: Any = ADA) -> list[dict[str, Any]]:
    document = id_of(services, KEY)
    status, found = call(make_reader(lambda: services), "get_document", documentId=document, caller=caller)
    assert status == 200, found
    return list(found["versions"])


class TestWriting:
    def test_a_text_becomes_the_next_version(self, handler: Handler, services: System) -> None:
        status, found = read(handler)
        assert (status, found["text"], found["objectKey"]) == (200, TEXT, KEY)
        check_described("read_text", found)
        status, written = write(handler, MINE, found["revision"])
        assert status == 202
        check_described("write_text", written)
        ingested(services)
        assert [one["version"] for one in versions(services)] == [2, 1]
        assert read(handler)[1] == {**found, "text": MINE, "revision": written["revision"]}

    def test_of_two_people_who_edit_the_same_text_the_second_is_refused(self, handler: Handler) -> None:
        """Also before the first one's is ingested. Nothing is lost: the second has the newer text to merge."""
        revision = read(handler)[1]["revision"]
        assert write(handler, MINE, revision)[0] == 202
        answer = write(handler, THEIRS, revision, caller=BOB)
        assert refusal(answer) == (409, "conflict")
        assert answer[1]["error"]["message"].startswith(f"{SOURCE} was changed by ada since it was read")
        newer = read(handler, caller=BOB)[1]
        assert newer["text"] == MINE
        assert write(handler, THEIRS, newer["revision"], caller=BOB)[0] == 202

    def test_a_new_document_replaces_none(self, handler: Handler, services: System) -> None:
        assert write(handler, "# New\n\nText.\n", "", "runbooks/new.md")[0] == 202
        ingested(services)
        assert id_of(services, "clients/acme/documents/runbooks/new.md")
        answer = write(handler, "# Other\n\nText.\n", "", "runbooks/new.md", BOB)
        assert refusal(answer) == (409, "conflict")
        assert "already, put by ada" in answer[1]["error"]["message"]

    def test_a_deleted_document_is_not_brought_back(self, handler: Handler, services: System) -> None:
        revision = read(handler)[1]["revision"]
        services.store.delete(KEY)
        answer = write(handler, MINE, revision)
        assert (refusal(answer), services.store.head(KEY)) == ((409, "conflict"), None)
        assert "deleted meanwhile" in answer[1]["error"]["message"]

    def test_facts_of_the_document_stay_and_its_author_is_the_editor(self, handler: Handler, services: System) -> None:
        facts = '{"lastUpdated": "2020-01-01", "tags": ["vault"]}'
        services.store.put(KEY, TEXT.encode(), metadata={OBJECT_METADATA: facts})
        assert write(handler, MINE, read(handler)[1]["revision"])[0] == 202
        ingested(services)
        document = versions(services)[0]
        assert (document["tags"], document["metadata"]["lastUpdated"] > "2021") == (["vault"], True)
        found = call(make_reader(lambda: services), "explain_provenance", documentId=id_of(services, KEY), caller=ADA)
        assert found[1]["provenance"]["channel"] == {"kind": "api", "principal": "ada", "proof": "token"}


class TestRefusals:
    @pytest.mark.parametrize("name", ["runbooks/vault.pdf", "runbooks/vault.md.metadata.json", "runbooks/vault"])
    def test_only_text_is_edited(self, handler: Handler, name: str) -> None:
        assert refusal(read(handler, name)) == refusal(write(handler, "x", "", name)) == (400, "invalid_argument")

    @pytest.mark.parametrize("name", ["../../other/documents/a.md", "a/../../b.md", "a//b.md"])
    def test_a_name_that_leaves_the_folder_is_none(self, handler: Handler, services: System, name: str) -> None:
        before = [info.key for info in services.store.list()]
        assert read(handler, name)[0] in (400, 404)
        assert refusal(write(handler, "# X\n\ny\n", "", name)) == (400, "invalid_argument")
        assert [info.key for info in services.store.list()] == before

    def test_a_document_of_another_client_is_none(self, handler: Handler, services: System) -> None:
        revision = read(handler)[1]["revision"]
        assert refusal(read(handler, caller=OTHER)) == (404, "not_found")
        answer = write(handler, MINE, revision, caller=OTHER)
        assert refusal(answer) == (409, "conflict")
        assert "deleted meanwhile" in answer[1]["error"]["message"]  # as for a name of nobody
        assert [info.key for info in services.store.list() if info.key.startswith("clients/other")] == []
        assert refusal(read(handler, "runbooks/disk.md")) == (404, "not_found")  # that of everybody isn't one's own

    def test_readers_edit_and_review_nothing(self, handler: Handler, services: System) -> None:
        assert refusal(read(handler, caller=READER)) == (403, "forbidden")
        assert refusal(write(handler, MINE, read(handler)[1]["revision"], caller=READER)) == (403, "forbidden")
        assert refusal(review(handler, services, caller=READER)) == (403, "forbidden")

    def test_a_document_of_a_source_is_edited_there(self, handler: Handler, services: System) -> None:
        channel = channel_metadata(Channel(ChannelKind.SOURCE, "wiki"))
        etag = services.store.put(KEY, TEXT.encode(), metadata=channel).etag
        answer = write(handler, MINE, etag)
        assert refusal(answer) == refusal(read(handler)) == (400, "invalid_argument")
        assert "it comes from source wiki" in answer[1]["error"]["message"]

    def test_secrets_are_not_shown(self, handler: Handler, services: System) -> None:
        services.store.put(KEY, b"# Vault\n\npassword: correcthorsebatterystaple9\n")
        answer = read(handler)
        assert refusal(answer) == (400, "invalid_argument")
        assert "correcthorse" not in str(answer)

    def test_what_is_no_utf_8_or_too_large_is_refused(self, handler: Handler, services: System) -> None:
        for data in (b"# \xff\xfe", b"x" * 1_000_001):
            services.store.put(KEY, data)
            assert refusal(read(handler)) == (400, "invalid_argument")
        services.store.delete(KEY)
        assert refusal(write(handler, "é" * 600_000, "")) == (400, "invalid_argument")


def review(handler: Handler, services: System, caller: Any = ADA, **body: int) -> tuple[int, Any]:
    return call(handler, "mark_reviewed", body=body, documentId=id_of(services, KEY), caller=caller)


def due(services: System, days: int = 30) -> list[str]:
    found = call(make_reader(lambda: services), "list_reviews", query={"days": str(days)}, caller=ADA)[1]
    return [item["reviewBy"] for item in found["items"]]


class TestReviews:
    def test_a_reviewed_document_is_due_later_and_stays_the_same_version(
        self, handler: Handler, services: System
    ) -> None:
        before = versions(services)[0]
        assert due(services) == ["2020-01-01"]
        status, found = review(handler, services, days=90)
        assert (status, found["review"]["by"]) == (202, "ada")
        check_described("mark_reviewed", found)
        ingested(services)
        assert (due(services), due(services, 90)) == ([], [found["review"]["until"]])
        (after,) = versions(services)
        assert after["reviewedAt"] == found["review"]["at"]
        changed = ("reviewBy", "reviewedAt")
        assert {name: one for name, one in after.items() if name not in changed} == {
            name: one for name, one in before.items() if name not in changed
        }

    def test_another_text_needs_another_review(self, handler: Handler, services: System) -> None:
        review(handler, services)
        ingested(services)
        write(handler, MINE, read(handler)[1]["revision"])
        ingested(services)
        assert (due(services), versions(services)[0]["reviewedAt"]) == (["2020-01-01"], "")

    def test_what_was_changed_since_it_was_ingested_is_not_reviewed(self, handler: Handler, services: System) -> None:
        write(handler, MINE, read(handler)[1]["revision"])
        assert refusal(review(handler, services)) == (409, "conflict")

    def test_an_old_version_is_not_reviewed(self, handler: Handler, services: System) -> None:
        old = id_of(services, KEY)
        write(handler, MINE, read(handler)[1]["revision"])
        ingested(services)
        assert refusal(call(handler, "mark_reviewed", body={}, documentId=old, caller=ADA)) == (400, "invalid_argument")

    def test_the_document_of_everybody_is_not_ones_own(self, handler: Handler, services: System) -> None:
        document = id_of(services, "documents/runbooks/disk.md")
        answer = call(handler, "mark_reviewed", body={}, documentId=document, caller=ADA)
        assert refusal(answer) == (400, "invalid_argument")
        theirs = call(handler, "mark_reviewed", body={}, documentId=id_of(services, KEY), caller=OTHER)
        assert refusal(theirs) == (404, "not_found")

    def test_reviewers_are_named_to_their_own_scope_alone(self, services: System) -> None:
        owner = make_handler(lambda: services)
        curator = a_token(scopes="opx/curate opx/write", sub="zoe")
        document = id_of(services, "documents/runbooks/disk.md")
        assert call(owner, "mark_reviewed", body={}, documentId=document, caller=curator)[0] == 202
        ingested(services)
        reader = make_reader(lambda: services)
        for caller, name in ((curator, "zoe"), (ADA, "")):
            found = call(reader, "explain_provenance", documentId=document, caller=caller)[1]
            assert found["provenance"].get("reviewedBy", "") == name
        assert "zoe" not in str(call(reader, "get_document", documentId=document, caller=ADA))
