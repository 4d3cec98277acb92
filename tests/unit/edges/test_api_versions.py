"""Versions of documents over the HTTP API: visibility and restoring per caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler as make_manager
from opx.operations.system import System
from tests.support.agent_calls import a_system, id_of
from tests.support.api_requests import Handler, a_token, call, check_described, refusal

pytestmark = pytest.mark.usefixtures("json_logs")

SHARED = "documents/runbooks/disk.md"
OF_ACME = "clients/acme/documents/runbooks/vault.md"
RESTORED = "clients/acme/documents/runbooks/keys.md"
OLD = "# {}\n\nRotate the logs.\n"
NEW = "# {}\n\nCall the storage team.\n"
ACME, OTHER = a_token("acme", scopes="opx/write"), a_token("other", scopes="opx/write")


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    texts = {SHARED: OLD.format("Disk full"), OF_ACME: OLD.format("Vault sealed"), RESTORED: OLD.format("Keys")}
    with a_system(tmp_path_factory.mktemp("home"), texts) as system:
        yield system


@pytest.fixture(scope="module")
def old(services: System) -> dict[str, str]:
    """The ids of the first versions."""
    found = {key: id_of(services, key) for key in (SHARED, OF_ACME, RESTORED)}
    services.store.put(SHARED, NEW.format("Disk full").encode())
    services.store.put(OF_ACME, NEW.format("Vault sealed").encode())
    services.store.put(RESTORED, NEW.format("Keys").encode())
    assert services.ingestion.drain
    assert len(list(services.ingestion.drain.run())) == 3
    return found


@pytest.fixture
def manager(services: System) -> Handler:
    return make_manager(lambda: services)


def as_described(route: str, reply: Any) -> None:
    check_described(route, reply)


def test_versions_differ_as_they_do(handler: Handler, old: dict[str, str]) -> None:
    status, found = call(handler, "diff_document", caller=ACME, query={"to": "2"}, documentId=old[OF_ACME])
    assert status == 200
    as_described("diff_document", found)
    assert found["diff"].endswith("-Rotate the logs.\n+Call the storage team.\n")
    assert (found["before"]["documentId"], found["source"]) == (old[OF_ACME], "documents/runbooks/vault.md")


def test_either_version_may_be_named(handler: Handler, old: dict[str, str]) -> None:
    query = {"from": "2", "to": "1"}
    _, found = call(handler, "diff_document", caller=ACME, query=query, documentId=old[SHARED])
    assert (found["before"]["version"], found["after"]["version"]) == (2, 1)


def test_old_version_is_found_by_the_beginning_of_its_id(handler: Handler, old: dict[str, str]) -> None:
    _, found = call(handler, "get_document", caller=ACME, documentId=old[OF_ACME][:8].upper())
    assert (found["document"]["documentId"], found["document"]["state"]) == (old[OF_ACME], "superseded")
    answer = call(handler, "get_document", caller=OTHER, documentId=old[OF_ACME][:8])
    assert refusal(answer) == (404, "not_found")


def test_of_another_client_no_version_is_shown(handler: Handler, old: dict[str, str]) -> None:
    answer = call(handler, "diff_document", caller=OTHER, query={"to": "2"}, documentId=old[OF_ACME])
    assert refusal(answer) == (404, "not_found")


def test_a_version_is_put_back(manager: Handler, services: System, old: dict[str, str]) -> None:
    status, found = call(
        manager, "restore_document", body={"version": 1}, caller=ACME, documentId=id_of(services, RESTORED)
    )
    assert (status, found["objectKey"], found["original"]) == (202, RESTORED, False)
    as_described("restore_document", found)
    assert services.ingestion.drain
    (outcome,) = services.ingestion.drain.run()
    assert outcome.document_id == old[RESTORED]


@pytest.mark.parametrize(
    ("key", "who", "body", "expected"),
    [
        (SHARED, ACME, {}, (400, "invalid_argument")),
        (OF_ACME, OTHER, {}, (404, "not_found")),
        (OF_ACME, ACME, {"version": 9}, (404, "not_found")),
        (OF_ACME, ACME, {"version": 0}, (400, "invalid_argument")),
        (OF_ACME, a_token("acme", scopes="openid"), {}, (403, "forbidden")),
    ],
    ids=["of everyone", "of another client", "of no version", "of no number", "without the right to write"],
)
def test_a_version_that_may_not_be_restored_is_refused(
    manager: Handler, old: dict[str, str], key: str, who: Any, body: dict[str, int], expected: tuple[int, str]
) -> None:
    assert refusal(call(manager, "restore_document", body=body, caller=who, documentId=old[key])) == expected


def test_a_question_may_be_as_of_a_time(handler: Handler, old: dict[str, str]) -> None:
    assert old
    query = {"q": "disk full rotate", "asOf": "2020-01-01T10:00:00Z"}
    status, found = call(handler, "search", caller=ACME, query=query, kbId="default")
    assert (status, found["results"]) == (200, [])
    assert found["notes"][0].startswith("as of 2020-01-01T10:00:00Z: ")
    wrong = call(handler, "search", caller=ACME, query={"q": "disk", "asOf": "then"}, kbId="default")
    assert refusal(wrong) == (400, "invalid_argument")
