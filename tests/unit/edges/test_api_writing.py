"""The HTTP API's operations that write: into the caller's own scope, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler
from opx.domain.provenance import Channel, ChannelKind
from opx.domain.record import replace
from opx.ingestion.channels import channel_metadata
from opx.ingestion.files import OBJECT_METADATA
from opx.operations.system import System
from opx.runtime.functions import FunctionFailedError
from tests.support.agent_calls import DISK, id_of
from tests.support.api_requests import ROLE, ROUTE, Handler, a_request, a_token, call, check_described, refusal
from tests.support.fakes import FakeContext
from tests.support.writing_support import (
    BROKEN,
    HASH,
    POST,
    PROCEDURES,
    TEXT,
    UPLOAD,
    VAULT,
    NotedSigner,
    a_writable_system,
    keys,
)

CART = "clients/acme/projects/shop/documents/runbooks/cart.md"
ACME, OTHER, ADMIN = a_token("acme"), a_token("other"), a_token(scopes="opx/admin")


@pytest.fixture
def signer() -> NotedSigner:
    return NotedSigner()


@pytest.fixture
def services(tmp_path: Path, signer: NotedSigner) -> Iterator[System]:
    with a_writable_system(tmp_path, signer) as system:
        yield system


@pytest.fixture
def handler(services: System) -> Handler:
    return make_handler(lambda: services)


def text_of(services: System, key: str) -> str:
    with services.store.open(key) as stream:
        return stream.read().decode()


class TestIngest:
    def test_a_document_is_put_into_the_callers_scope(self, handler: Handler, services: System) -> None:
        body = {"document": TEXT, "metadata": {"source": "keys", "tags": ["security"]}}
        status, found = call(handler, "ingest", body=body, caller=ACME, **PROCEDURES)
        key = "clients/acme/documents/runbooks/procedures/keys.md"
        assert (status, found) == (202, {"accepted": [{"objectKey": key}], "refused": []})
        assert text_of(services, key) == TEXT
        info = services.store.head(key)
        assert info is not None
        stated = json.loads(info.metadata[OBJECT_METADATA])
        assert stated == {"tags": ["security"], "category": "runbooks/procedures"}

    def test_an_object_is_put_as_json(self, handler: Handler, services: System) -> None:
        body = {"document": {"title": "Keys", "content": "Rotate them."}}
        found = call(handler, "ingest", body=body, **PROCEDURES)[1]
        (accepted,) = found["accepted"]
        assert json.loads(text_of(services, accepted["objectKey"])) == body["document"]

    def test_of_several_the_good_ones_are_accepted(self, handler: Handler, services: System) -> None:
        body = {"documents": [TEXT, "half \ud800 a pair", TEXT + "!", TEXT]}
        status, found = call(handler, "ingest", body=body, caller=ACME, **PROCEDURES)
        assert status == 202
        assert [refused["index"] for refused in found["refused"]] == [1]
        assert "not valid Unicode" in found["refused"][0]["reason"]
        assert {text_of(services, one["objectKey"]) for one in found["accepted"]} == {TEXT, TEXT + "!"}
        assert len(found["accepted"]) == 2

    def test_equal_ones_may_be_kept_apart(self, handler: Handler, services: System) -> None:
        body = {"documents": [TEXT, TEXT], "dedupe": False}
        assert len(call(handler, "ingest", body=body, caller=ACME, **PROCEDURES)[1]["accepted"]) == 2

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"document": TEXT, "documents": [TEXT]},
            {"documents": []},
            {"documents": [TEXT] * 101},
            {"documents": [5]},
            {"document": ""} | {"documents": ["x"]},
            {"document": TEXT, "dedupe": True},
            {"documents": [TEXT], "metadata": {}},
            {"document": TEXT, "client_id": "acme"},
            {"document": TEXT, "metadata": {"source": "../../../../clients/other/documents/x.md"}},
            {"document": TEXT, "metadata": {"source": "x.md.metadata.json"}},
            {"document": TEXT, "metadata": {"source": "x" * 2000}},
            {"document": TEXT, "metadata": {"title": "x" * 2000}},
            {"document": TEXT, "metadata": {"title": "\ud800"}},
            {"document": "half \ud800 a pair"},
        ],
    )
    def test_wrong_bodies_are_refused_and_nothing_is_put(self, refusing: Handler, body: object) -> None:
        answer = call(refusing, "ingest", body=body, caller=ACME, **PROCEDURES)
        assert refusal(answer) == (400, "invalid_argument")

    @pytest.mark.parametrize("levels", [40, 300, 900, 980, 5000, 50_000])
    def test_metadata_within_metadata_are_refused_however_deep(self, refusing: Handler, levels: int) -> None:
        body = '{"document": "# X", "metadata": ' + '{"x":' * levels + "1" + "}" * levels + "}"
        answer = call(refusing, "ingest", body=body, caller=ACME, **PROCEDURES)
        assert refusal(answer) == (400, "invalid_argument")

    @pytest.mark.parametrize(
        ("tier", "category", "code"),
        [
            ("internal", "cooking", "unknown_category"),
            ("internal", "../runbooks", "unknown_category"),
            ("internet", "runbooks/procedures", "invalid_argument"),
            ("secret", "runbooks/procedures", "invalid_argument"),
        ],
    )
    def test_unknown_categories_and_tiers_are_refused(
        self, refusing: Handler, tier: str, category: str, code: str
    ) -> None:
        answer = call(refusing, "ingest", body={"document": TEXT}, tier=tier, category=category)
        assert refusal(answer) == (400, code)

    def test_a_forged_identity_in_the_metadata_does_not_change_the_scope(
        self, handler: Handler, services: System
    ) -> None:
        metadata = {"source": "x", "clientId": "acme", "scope": "client:acme"}
        body = {"document": TEXT, "metadata": metadata}
        found = call(handler, "ingest", body=body, caller=OTHER, headers={"x-opx-client-id": "acme"}, **PROCEDURES)[1]
        assert found["accepted"] == [{"objectKey": "clients/other/documents/runbooks/procedures/x.md"}]


class TestEvidence:
    BODY = {"agent_type": "investigator", "outcome": "investigated", "conclusion": ["A leak."], "evidence_id": "run-1"}  # noqa: RUF012

    def test_evidence_is_put_into_the_callers_scope(self, handler: Handler, services: System) -> None:
        status, found = call(handler, "put_evidence", body=self.BODY, caller=ACME)
        key = "clients/acme/documents/evidence/agent_runs/evidence/run-1.json"
        assert (status, found) == (202, {"objectKey": key})
        assert json.loads(text_of(services, key))["conclusions"] == ["A leak."]

    def test_fields_of_other_names_are_kept_and_change_no_scope(self, handler: Handler, services: System) -> None:
        body = {**self.BODY, "room": "b2", "client_id": "other", "project_id": "shop"}
        status, found = call(handler, "put_evidence", body=body, caller=ACME)
        assert (status, found["objectKey"][:13]) == (202, "clients/acme/")
        details = json.loads(text_of(services, found["objectKey"]))["details"]
        assert details == {"room": "b2", "client_id": "other", "project_id": "shop"}

    @pytest.mark.parametrize(
        "change",
        [
            {"conclusion": "no list"},
            {"conclusion": []},
            {"verified": "yes"},
            {"started_at": "soon"},
            {"task": "x" * 20_001},
            {"details": []},
            {"details": [], "colour": "red"},
        ],
    )
    def test_wrong_evidence_is_refused_and_nothing_is_put(self, refusing: Handler, change: dict[str, Any]) -> None:
        answer = call(refusing, "put_evidence", body={**self.BODY, **change}, caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")


class TestUpload:
    def test_upload_of_a_new_file_gets_a_signed_address(self, handler: Handler, signer: NotedSigner) -> None:
        body = {**UPLOAD, "metadata": {"tags": ["security"]}}
        status, found = call(handler, "prepare_upload", body=body, caller=ACME)
        key = "clients/acme/documents/docs/keys.md"
        put = {"url": f"https://corpus.example/{key}", "headers": {"content-length": str(len(TEXT))}}
        assert (status, found) == (200, {"state": "upload", "objectKey": key, "put": put})
        (signed,) = signer.signed.items()
        stated = signed[1]["metadata"][OBJECT_METADATA]
        channel = channel_metadata(Channel(ChannelKind.API, "", "alice", "token"))
        assert signed == (
            key,
            {"size": len(TEXT), "sha256": HASH, "metadata": {OBJECT_METADATA: stated, **channel}, "seconds": 900},
        )
        assert json.loads(stated) == {"name": "keys.md", "source_uri": "docs/keys.md", "tags": ["security"]}

    def test_a_sidecar_has_an_address_of_its_own(self, handler: Handler, signer: NotedSigner) -> None:
        sidecar = {"sha256": "0" * 64, "size": 12}
        found = call(handler, "prepare_upload", body={**UPLOAD, "sidecar": sidecar}, caller=ACME)[1]
        key = "clients/acme/documents/docs/keys.md.metadata.json"
        assert found["sidecarPut"]["url"].endswith(key)
        assert signer.signed[key] == {"size": 12, "sha256": "0" * 64, "metadata": {}, "seconds": 900}

    def test_upload_of_an_ingested_file_is_answered_as_unchanged(
        self, handler: Handler, services: System, signer: NotedSigner
    ) -> None:
        key = self.put_as_signed(handler, services, signer)
        status, found = call(handler, "prepare_upload", body=UPLOAD, caller=ACME)
        assert (status, found) == (
            200,
            {"state": "unchanged", "objectKey": key, "documentId": id_of(services, key)},
        )

    @pytest.mark.parametrize(
        "change",
        [
            {"sha256": "0" * 64},
            {"metadata": {"tags": ["new"]}},
            {"sidecar": {"sha256": "0" * 64, "size": 1}},
            {"source": "docs/other.md"},
        ],
    )
    def test_a_file_that_changed_is_sent_again(
        self, handler: Handler, services: System, signer: NotedSigner, change: dict[str, Any]
    ) -> None:
        self.put_as_signed(handler, services, signer)
        assert call(handler, "prepare_upload", body={**UPLOAD, **change}, caller=ACME)[1]["state"] == "upload"

    def test_file_that_waits_for_ingestion_is_uploaded_again(
        self, handler: Handler, services: System, signer: NotedSigner
    ) -> None:
        self.put_as_signed(handler, services, signer, work=False)
        assert call(handler, "prepare_upload", body=UPLOAD, caller=ACME)[1]["state"] == "upload"

    def test_a_sidecar_that_the_file_no_longer_has_stays_until_the_file_is_there(
        self, handler: Handler, services: System, signer: NotedSigner
    ) -> None:
        key = self.put_as_signed(handler, services, signer)
        services.store.put(key + ".metadata.json", b'{"metadataAttributes": {}}')
        found = call(handler, "prepare_upload", body=UPLOAD, caller=ACME)[1]
        assert (found["state"], found["removeSidecar"]) == ("upload", True)
        assert services.store.head(key + ".metadata.json")
        check_described("prepare_upload", found)

    def test_a_sidecar_that_the_file_has_is_not_to_be_removed(
        self, handler: Handler, services: System, signer: NotedSigner
    ) -> None:
        key = self.put_as_signed(handler, services, signer)
        services.store.put(key + ".metadata.json", b'{"metadataAttributes": {}}')
        body = {**UPLOAD, "sidecar": {"sha256": "0" * 64, "size": 1}}
        assert "removeSidecar" not in call(handler, "prepare_upload", body=body, caller=ACME)[1]

    @pytest.mark.parametrize(
        "change",
        [
            {"source": ""},
            {"source": "x.md.metadata.json"},
            {"sha256": "zz"},
            {"sha256": HASH.upper()},
            {"size": -1},
            {"size": 1.5},
            {"size": 6 * 1024**3},
            {"sidecar": {"sha256": HASH}},
            {"key": "clients/other/documents/x.md"},
        ],
    )
    def test_wrong_bodies_are_refused(self, refusing: Handler, change: dict[str, Any]) -> None:
        answer = call(refusing, "prepare_upload", body={**UPLOAD, **change}, caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")

    def test_upload_of_a_file_that_is_too_large_is_refused_before_it_is_signed(
        self, handler: Handler, services: System, signer: NotedSigner
    ) -> None:
        size = services.settings.max_document_bytes + 1
        answer = call(handler, "prepare_upload", body={**UPLOAD, "size": size}, caller=ACME)
        assert refusal(answer) == (413, "too_large")
        assert signer.signed == {}

    def test_a_folder_of_this_machine_takes_no_uploads(self, tmp_path: Path, services: System) -> None:
        services.corpus.upload_signer = None
        answer = call(make_handler(lambda: services), "prepare_upload", body=UPLOAD, caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")

    def put_as_signed(self, handler: Handler, services: System, signer: NotedSigner, *, work: bool = True) -> str:
        """Prepares an upload, puts the file, and ingests it."""
        key: str = call(handler, "prepare_upload", body=UPLOAD, caller=ACME)[1]["objectKey"]
        services.store.put(key, TEXT.encode(), metadata=signer.signed[key]["metadata"])
        signer.stored[key] = HASH
        if work:
            list(services.manager.work())
        return key


class TestDeletion:
    def test_own_objects_are_removed_with_their_metadata(self, handler: Handler, services: System) -> None:
        services.store.put(VAULT + ".metadata.json", b"{}")
        status, found = call(handler, "delete_objects", body={"objectKeys": [VAULT, VAULT]}, caller=ACME)
        assert (status, found) == (200, {"deleted": 1})
        assert not [key for key in keys(services) if key.startswith(VAULT)]

    def test_a_metadata_file_is_removed_without_its_document(self, handler: Handler, services: System) -> None:
        sidecar = VAULT + ".metadata.json"
        services.store.put(sidecar, b"{}")
        assert call(handler, "delete_objects", body={"objectKeys": [sidecar]}, caller=ACME) == (200, {"deleted": 1})
        assert [key for key in keys(services) if key.startswith(VAULT)] == [VAULT]

    @pytest.mark.parametrize(
        "key",
        [
            VAULT,
            VAULT + ".metadata.json",
            CART,
            "clients/acme/chunks/x.jsonl",
            "clients/acme/projects/blog/documents/../../../documents/runbooks/vault.md",
            "clients/other/../acme/documents/runbooks/vault.md",
            "clients//documents/x.md",
            "documents/../clients/acme/documents/runbooks/vault.md",
            DISK,
            "/" + VAULT,
        ],
    )
    def test_objects_of_others_are_refused_and_nothing_is_removed(self, refusing: Handler, key: str) -> None:
        body = {"objectKeys": [POST, key]}
        answer = call(refusing, "delete_objects", body=body, caller=a_token("acme", "blog"))
        assert refusal(answer) == (400, "invalid_argument")

    def test_a_client_can_not_remove_documents_of_its_projects(self, handler: Handler, services: System) -> None:
        answer = call(handler, "delete_objects", body={"objectKeys": [CART]}, caller=ACME)
        assert refusal(answer) == (400, "invalid_argument")
        assert CART in keys(services)

    def test_own_documents_are_removed_by_their_id(self, handler: Handler, services: System) -> None:
        vault = id_of(services, VAULT)
        status, found = call(handler, "delete_document", caller=ACME, documentId=vault.upper())
        assert (status, [one["documentId"] for one in found["deleted"]]) == (200, [vault])
        assert VAULT not in keys(services)

    def test_a_deletion_without_a_reply_may_be_repeated(self, handler: Handler, services: System) -> None:
        vault = id_of(services, VAULT)
        call(handler, "delete_document", caller=ACME, documentId=vault)
        list(services.manager.work())
        assert call(handler, "delete_document", caller=ACME, documentId=vault) == (200, {"deleted": []})
        assert refusal(call(handler, "delete_document", caller=OTHER, documentId=vault)) == (404, "not_found")

    @pytest.mark.parametrize("caller", [OTHER, a_token("acme", "shop"), ADMIN])
    def test_a_document_of_another_scope_is_reported_like_an_unknown_one(
        self, handler: Handler, services: System, caller: dict[str, Any]
    ) -> None:
        vault = id_of(services, VAULT)
        theirs = call(handler, "delete_document", caller=caller, documentId=vault)
        nobodys = call(handler, "delete_document", caller=caller, documentId="f" * 32)
        assert refusal(theirs) == (404, "not_found")
        assert json.dumps(theirs).replace(vault, "f" * 32) == json.dumps(nobodys)
        assert VAULT in keys(services)


class TestFailures:
    def failure(self, services: System) -> str:
        (item,) = services.corpus.failures.items()
        return item.failure_id

    @pytest.mark.parametrize("everything", [True, False])
    def test_own_failures_are_tried_again(self, handler: Handler, services: System, everything: bool) -> None:
        services.store.put(BROKEN, TEXT.encode())
        list(services.queue.receive())
        body = {"all": True} if everything else {"failureIds": [self.failure(services)]}
        before = services.queue.waiting()
        status, found = call(handler, "retry_failures", body=body, caller=ACME)
        assert (status, found) == (200, {"sent": 1, "objectKeys": [BROKEN]})
        assert services.queue.waiting() == before + 1

    @pytest.mark.parametrize("everything", [True, False])
    def test_failures_of_others_are_not(self, handler: Handler, services: System, everything: bool) -> None:
        body = {"all": True} if everything else {"failureIds": [self.failure(services), "unknown"]}
        assert call(handler, "retry_failures", body=body, caller=OTHER) == (200, {"sent": 0, "objectKeys": []})
        assert services.queue.waiting() == 0

    @pytest.mark.parametrize("body", [{}, {"all": False}, {"all": True, "failureIds": ["x"]}, {"failureIds": []}])
    def test_wrong_bodies_are_refused(self, refusing: Handler, body: object) -> None:
        assert refusal(call(refusing, "retry_failures", body=body, caller=ACME)) == (400, "invalid_argument")


class TestObjectStates:
    def test_states_of_own_objects_are_reported(self, handler: Handler) -> None:
        missing = "clients/acme/documents/no.md"
        status, found = call(handler, "get_object_states", body={"objectKeys": [VAULT, BROKEN, missing]}, caller=ACME)
        assert status == 200
        assert [state["state"] for state in found["states"]] == ["ingested", "failed", "deleted"]
        assert found["states"][0]["title"] == "Unseal the acme vault"

    def test_objects_of_others_are_refused(self, handler: Handler) -> None:
        answer = call(handler, "get_object_states", body={"objectKeys": [VAULT]}, caller=OTHER)
        assert refusal(answer) == (400, "invalid_argument")


class TestProjects:
    def test_a_project_is_put_into_a_group_and_out_of_it(self, handler: Handler) -> None:
        path = {"clientId": "acme", "projectId": "shop"}
        status, found = call(handler, "assign_project", body={"groupId": "sales"}, caller=ADMIN, **path)
        assert (status, found["groupId"]) == (200, "sales")
        assert "client:acme/group:sales" in found["visible"]
        assert call(handler, "get_project", caller=ADMIN, **path) == (200, found)
        assert call(handler, "assign_project", body={"groupId": ""}, caller=ADMIN, **path)[1]["groupId"] == ""

    @pytest.mark.parametrize(("client", "group"), [("a/*", "sales"), ("acme", "sales/*"), ("acme", "*")])
    def test_malformed_ids_are_refused(self, handler: Handler, client: str, group: str) -> None:
        path = {"clientId": client, "projectId": "shop"}
        answer = call(handler, "assign_project", body={"groupId": group}, caller=ADMIN, **path)
        assert refusal(answer) == (400, "invalid_argument")

    @pytest.mark.parametrize(
        ("name", "request_"), [("get_project", {}), ("assign_project", {"body": {"groupId": "x"}})]
    )
    def test_an_administrator_of_one_client_has_nothing_to_do_with_projects_of_another(
        self, handler: Handler, services: System, name: str, request_: dict[str, Any]
    ) -> None:
        path = {"clientId": "other", "projectId": "shop"}
        administrator = a_token("acme", scopes="opx/admin")
        assert refusal(call(handler, name, caller=administrator, **request_, **path)) == (403, "forbidden")
        assert services.corpus.projects.group_of("other", "shop") == ""

    def test_neither_has_an_installation_that_is_configured_for_one_client(
        self, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(services.installation, "settings", replace(services.settings, client_id="acme"))
        handler, request = make_handler(lambda: services), {"body": {"groupId": "x"}, "projectId": "shop"}
        answer = call(handler, "assign_project", caller=ROLE, clientId="other", **request)
        assert refusal(answer) == (403, "forbidden")
        assert call(handler, "assign_project", caller=ROLE, clientId="acme", **request)[0] == 200


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        ("ingest", {"body": {"documents": [TEXT, "\ud800"]}, **PROCEDURES}),
        ("prepare_upload", {"body": {**UPLOAD, "sidecar": {"sha256": "0" * 64, "size": 1}}}),
        ("get_object_states", {"body": {"objectKeys": [VAULT, BROKEN]}}),
        ("delete_objects", {"body": {"objectKeys": [VAULT]}}),
        ("retry_failures", {"body": {"all": True}}),
        ("assign_project", {"body": {"groupId": "x"}, "clientId": "acme", "projectId": "shop"}),
    ],
)
def test_replies_are_as_they_are_described(handler: Handler, name: str, request_: dict[str, Any]) -> None:
    status, found = call(handler, name, caller=a_token("acme", scopes="opx/write opx/admin"), **request_)
    assert status == ROUTE[name].status
    check_described(name, found)


def test_an_event_other_than_a_request_is_not_answered(handler: Handler) -> None:
    with pytest.raises(FunctionFailedError):
        handler({"routeKey": "POST /uploads"}, FakeContext())
    with pytest.raises(FunctionFailedError):
        handler(a_request("prepare_upload", body=UPLOAD), FakeContext.of_gateway("search_runbooks"))
