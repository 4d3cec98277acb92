"""Questions to a sleeping collection that are answered by words alone meanwhile, through the deployed handlers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import boto3
import pytest
from mcp.client.client import Client

from lambdas.rebuild_index.handler import make_handler
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import IndexUnavailableError
from opx.ingestion.indexing.words import FOLDER, WordsManifest, WordsShelf
from opx.lifecycle.warm_words import WARM_WORDS
from opx.operations.context import Caller, Context
from opx.retrieval.waking import CANARY
from opx.runtime.functions import FunctionFailedError
from opx_serve.mcp import make_server, tools_for
from tests.aws.cloud import BUCKET
from tests.aws.nights import Night, a_night
from tests.support.agent_calls import a_function_event, text_of
from tests.support.api_requests import a_request
from tests.support.fakes import FakeContext

DISK, TITLE = "documents/runbooks/disk.md", "Disk full on Linux hosts"
SHOP, SHOP_TITLE = "clients/acme/documents/runbooks/checkout.md", "Checkout queue of the acme shop stalls"
DOCUMENTS = {
    DISK: f"# {TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume.",
    SHOP: f"# {SHOP_TITLE}\n\nRestart the checkout consumer and replay the queue.",
}
NOTE = "words only: the search index is waking up; ask again in 29 s for the whole answer"


@pytest.fixture
def night(aws: boto3.Session) -> Iterator[Night]:
    with a_night(aws, DOCUMENTS, warm_words="on") as night:
        make_words(night)
        yield night


def make_words(night: Night) -> WordsManifest | None:
    """Calls the function that makes segments; returns the newest one's manifest."""
    services = night.cloud.services
    make_handler(lambda: services)({"Records": [{"body": WARM_WORDS}]}, FakeContext(remaining_seconds=900))
    return services.indexing.words_shelf(services.store).newest()


def searched(night: Night, question: str = TITLE, **query: Any) -> tuple[dict[str, Any], float]:
    """The API's answer while the collection is asleep, and the seconds that it took."""
    reply, seconds = night.call_asleep(a_request("search", query={"q": question, **query}, kbId="default"))
    assert reply["statusCode"] == 200, reply["body"]
    return json.loads(reply["body"]), seconds


def titles(answer: dict[str, Any]) -> list[str]:
    return [one["metadata"]["title"] for one in (*answer["results"], *answer.get("unconfirmed", ()))]


def test_a_question_is_answered_by_words_at_once_and_as_a_whole_when_the_collection_is_awake(night: Night) -> None:
    answer, seconds = searched(night, receipt="true")
    assert seconds <= 1
    assert titles(answer)[0] == TITLE
    assert answer["results"][0]["band"] in {"sure", "likely"}
    assert answer["partial"] is True
    assert NOTE in answer["notes"]
    assert (answer["receipt"]["partial"], NOTE in answer["receipt"]["notes"]) == (True, True)
    assert answer["results"][0]["scores"]["vectorRank"] is None
    night.time.sleep(20)
    whole = json.loads(night.call(a_request("search", query={"q": TITLE}, kbId="default"))["body"])
    assert (whole["partial"], whole["notes"], titles(whole)[0]) == (False, [], TITLE)
    assert whole["results"][0]["scores"]["vectorRank"] == 1


def test_an_agent_and_an_mcp_client_read_that_only_words_were_searched(night: Night) -> None:
    reply, seconds = night.call_asleep(a_function_event("search_runbooks", query=TITLE))
    assert seconds <= 1
    assert NOTE in text_of(reply)
    assert f"Source: {TITLE}" in text_of(reply)
    context = Context(night.cloud.services, Caller(Identity()))
    server = make_server(tools_for(context), context)

    async def call() -> str:
        async with Client(server) as client:
            found = await client.call_tool("search_runbooks", {"query": TITLE})
            return str(found.content[0].text)  # type: ignore[union-attr]

    night.collection.sleep_now()
    assert NOTE in anyio.run(call)


def test_a_second_question_while_it_wakes_is_answered_at_once_and_counts_down(night: Night) -> None:
    searched(night)
    night.time.sleep(10)
    before = night.time.clock()
    answer = json.loads(night.call(a_request("search", query={"q": TITLE}, kbId="default"))["body"])
    assert night.time.clock() - before <= 1
    assert any("ask again in 19 s" in note for note in answer["notes"])


def test_readers_find_their_own_documents_and_those_for_all_and_none_of_others(night: Night) -> None:
    def found(client: str) -> list[str]:
        night.collection.sleep_now()
        identity = Identity(client) if client else Identity()
        questions = night.cloud.services.questions
        answer = questions.for_reader(identity, words=True).search(
            f"{SHOP_TITLE} {TITLE}", QueryConfig(min_confidence=0.0)
        )
        assert answer.partial
        return sorted(one.title for one in answer.results)

    assert found("acme") == sorted([SHOP_TITLE, TITLE])
    assert found("") == found("globex") == [TITLE]


def test_a_document_that_was_deleted_since_is_not_shown(night: Night) -> None:
    night.cloud.delete(DISK)
    assert night.cloud.deliver() == []
    answer, seconds = searched(night)
    assert titles(answer) == []
    assert seconds > 19  # words found nothing: the index was waited for


def test_a_document_that_was_replaced_since_is_not_shown_as_it_was(night: Night) -> None:
    night.cloud.put(DISK, f"# {TITLE}\n\nCall the storage team instead.")
    assert night.cloud.deliver() == []
    answer, seconds = searched(night)
    assert "Call the storage team" in answer["results"][0]["content"]
    assert seconds > 19


def test_a_question_that_words_dont_answer_waits_for_the_index(night: Night) -> None:
    answer, seconds = searched(night, "zzyzx qwerty")
    assert seconds > 19
    assert not any("words only" in note for note in answer["notes"])


def test_the_canary_waits_for_the_index(night: Night) -> None:
    reply, seconds = night.call_asleep(dict(CANARY))
    assert reply == {"searched": True}
    assert seconds > 19


def remove(night: Night, manifest: WordsManifest) -> None:
    night.cloud.s3.delete_object(Bucket=BUCKET, Key=f"{FOLDER}{manifest.name}/manifest.json")


def cut_short(night: Night, manifest: WordsManifest) -> None:
    key = f"{FOLDER}{manifest.name}/segment"
    whole = night.cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    night.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=whole[:-1])


def alter(night: Night, manifest: WordsManifest) -> None:
    key = f"{FOLDER}{manifest.name}/segment"
    whole = night.cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    night.cloud.s3.put_object(Bucket=BUCKET, Key=key, Body=whole[:-1] + bytes([whole[-1] ^ 1]))


def lose_it(night: Night, manifest: WordsManifest) -> None:
    night.cloud.s3.delete_object(Bucket=BUCKET, Key=f"{FOLDER}{manifest.name}/segment")


def rewritten(change: Callable[[dict[str, Any]], object]) -> Callable[[Night, WordsManifest], None]:
    def rewrite(night: Night, manifest: WordsManifest) -> None:
        data = manifest.to_json()
        change(data)
        night.cloud.s3.put_object(
            Bucket=BUCKET, Key=f"{FOLDER}{manifest.name}/manifest.json", Body=json.dumps(data).encode()
        )

    return rewrite


BROKEN = {
    "missing": remove,
    "cut short": cut_short,
    "altered": alter,
    "without its segment": lose_it,
    "of another analyzer": rewritten(lambda data: data.update(identity="format-1/analyzer-0")),
    "outside of its folder": rewritten(lambda data: data["files"][0].update(path="../escaped")),
    "unreadable": rewritten(lambda data: data.pop("files")),
}


def test_without_a_segment_that_can_be_used_the_index_is_waited_for(night: Night) -> None:
    for name, break_it in BROKEN.items():
        assert searched(night)[1] <= 1, f"before it was {name}"
        break_it(night, renewed(night))
        for _ in range(2):  # what was found unusable is not tried again
            answer, seconds = searched(night)
            assert 19 < seconds < 27, name
            assert (answer["partial"], titles(answer)[0]) == (False, TITLE), name
        renewed(night)


def renewed(night: Night) -> WordsManifest:
    """A segment of another name with the same documents, and no other one."""
    for one in night.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=FOLDER).get("Contents", []):
        night.cloud.s3.delete_object(Bucket=BUCKET, Key=one["Key"])
    made = make_words(night)
    assert made is not None
    return made


def test_a_segment_is_made_when_the_corpus_has_changed_and_replaces_the_former_one(night: Night) -> None:
    first = make_words(night)
    assert first == make_words(night)
    assert first is not None
    assert (first.documents, first.whole, first.clients) == (2, True, ("acme",))
    night.cloud.put("documents/runbooks/cpu.md", "# High CPU on hosts\n\nLook at top.")
    assert night.cloud.deliver() == []
    second = make_words(night)
    assert second is not None
    assert (second.documents, second.name > first.name) == (3, True)
    kept = night.cloud.s3.list_objects_v2(Bucket=BUCKET, Prefix=FOLDER)["Contents"]
    assert {one["Key"].split("/")[1] for one in kept} == {second.name}
    assert titles(searched(night, "High CPU on hosts")[0])[0] == "High CPU on hosts"


def test_a_client_that_is_removed_leaves_no_segment_and_the_next_one_is_without_it(night: Night) -> None:
    make_words(night)
    tenants, services = night.cloud.services.tenants, night.cloud.services
    assert tenants.offboarding().count("acme")["segments of words"] == 1
    assert tenants.offboarding().count("globex")["segments of words"] == 0
    report = tenants.offboarding(sleep=lambda _: None).remove("acme", by="ann")
    assert (report.left, report.stores["segments of words"].before) == ({}, 1)
    assert "Versions" not in night.cloud.s3.list_object_versions(Bucket=BUCKET, Prefix=FOLDER)
    made = make_words(night)
    assert made is not None
    assert (made.documents, made.clients) == (1, ())
    assert services.corpus.clients.get("acme") is not None


def test_a_segment_that_exceeds_its_budget_is_not_put_into_the_store(aws: boto3.Session) -> None:
    with a_night(aws, DOCUMENTS, warm_words="on", warm_words_bytes=100) as night:
        with pytest.raises(FunctionFailedError, match="IndexUnavailableError"):
            make_words(night)
        assert not [one.key for one in night.cloud.services.store.list(FOLDER)]


def test_a_segment_that_exceeds_the_budget_of_a_reader_is_not_fetched(night: Night, tmp_path: Path) -> None:
    store, manifest = night.cloud.services.store, renewed(night)
    WordsShelf(store, budget=manifest.size, clock=night.time.clock).fetch(manifest, tmp_path)
    assert (tmp_path / "chunks").is_file()
    with pytest.raises(IndexUnavailableError, match="exceeds"):
        WordsShelf(store, budget=manifest.size - 1, clock=night.time.clock).fetch(manifest, tmp_path)


def test_without_the_choice_no_segment_is_made(aws: boto3.Session) -> None:
    with a_night(aws, DOCUMENTS) as night:
        assert make_words(night) is None
