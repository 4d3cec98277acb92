"""Access to the HTTP API's operations that write: token scopes, clients, administrators, and roles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambdas.manage_knowledge.handler import make_handler
from opx.domain.record import replace
from opx.operations.system import System
from tests.support.api_requests import ROLE, ROUTE, Handler, a_token, call, refusal
from tests.support.writing_support import (
    PROCEDURES,
    TEXT,
    UPLOAD,
    NotedSigner,
    a_writable_system,
)

ACME, ADMIN, READER = a_token("acme"), a_token(scopes="opx/admin"), a_token("acme", scopes="openid")


@pytest.fixture
def services(tmp_path: Path) -> Iterator[System]:
    with a_writable_system(tmp_path, NotedSigner()) as system:
        yield system


@pytest.fixture
def handler(services: System) -> Handler:
    return make_handler(lambda: services)


NEEDING_ONE = (
    "prepare_parts",
    "complete_upload",
    "delete_document",
    "bind_alert",
    "remove_alias",
    "merge_nodes",
    "undo_merge",
    "restore_document",
    "mark_reviewed",
    "read_text",
    "verify_entry",
    "merge_patterns",
    "split_pattern",
    "retire_pattern",
    "process_checkpoint",
    "record_outcome",
)
"""Writes that need an existing resource."""

SOURCES = {
    "list_sources",
    "list_source_kinds",
    "try_source",
    "register_source",
    "change_source",
    "remove_source",
    "pull_source",
    "check_source",
    "crawl_site",
    "list_streams",
    "list_webhooks",
}
"""Tested by themselves."""


class TestWriteAccess:
    WRITES: tuple[tuple[str, dict[str, Any]], ...] = (
        ("ingest", {"body": {"document": TEXT}, **PROCEDURES}),
        ("put_evidence", {"body": {"agent_type": "a", "outcome": "b", "conclusion": ["c"]}}),
        ("prepare_upload", {"body": UPLOAD}),
        ("prepare_parts", {"body": {"source": "a.pdf", "size": 1}}),
        ("complete_upload", {"body": {"source": "a.pdf", "size": 1, "uploadId": "f" * 32}}),
        ("delete_objects", {"body": {"objectKeys": ["documents/runbooks/disk.md"]}}),
        ("delete_document", {"documentId": "f" * 32}),
        ("retry_failures", {"body": {"all": True}}),
        ("get_object_states", {"body": {"objectKeys": ["documents/runbooks/disk.md"]}}),
        ("add_values", {"body": {"values": [{"node": "web-1", "metric": "cpu", "value": 0.5}]}}),
        ("add_alias", {"body": {"alias": "service:co", "canonical": "service:checkout"}}),
        ("bind_alert", {"body": {"alert": "DiskFull", "documentId": "f" * 32}}),
        ("import_alert_rules", {"body": {"name": "a.yaml", "rules": "alerts: [{name: A}]"}}),
        ("assign_alert", {"body": {"alert": "DiskFull", "owner": "platform"}}),
        ("remove_alias", {"alias": "service:co"}),
        ("merge_nodes", {"body": {"from": "service:co", "into": "service:checkout"}}),
        ("undo_merge", {"mergeId": "f" * 32}),
        ("restore_document", {"documentId": "f" * 32, "body": {"version": 1}}),
        (
            "capture_entry",
            {
                "body": {
                    "entry_type": "failure_solution",
                    "project_id": "shop",
                    "failure_description": "it hangs",
                    "solution_steps": ["restart it"],
                }
            },
        ),
        ("verify_entry", {"entryId": "f" * 32, "body": {"worked": True}}),
        ("merge_patterns", {"patternId": "f" * 32, "body": {"otherId": "e" * 32}}),
        ("retire_pattern", {"patternId": "f" * 32, "body": {"because": "it is wrong"}}),
        ("split_pattern", {"patternId": "f" * 32, "body": {"ids": ["e" * 32]}}),
        ("process_checkpoint", {"body": {"projectId": "shop"}}),
        ("record_outcome", {"body": {"receiptId": "f" * 32, "documentId": "f" * 32, "result": "resolved"}}),
        ("list_masked_secrets", {}),
        ("read_text", {"query": {"source": "runbooks/disk.md"}}),
        ("write_text", {"body": {"source": "runbooks/new.md", "text": "# Disk"}}),
        ("mark_reviewed", {"documentId": "f" * 32, "body": {}}),
    )
    HOLDS: tuple[tuple[str, dict[str, Any]], ...] = (
        ("list_holds", {}),
        ("add_hold", {"body": {"reason": "matter 12", "category": "runbooks"}}),
        ("lift_hold", {"holdId": "f" * 32}),
    )
    PROJECTS: tuple[tuple[str, dict[str, Any]], ...] = (
        ("get_project", {"clientId": "acme", "projectId": "shop"}),
        ("assign_project", {"body": {"groupId": "x"}, "clientId": "acme", "projectId": "shop"}),
        ("preview_project_move", {"clientId": "acme", "projectId": "shop", "query": {"groupId": "x"}}),
        ("list_projects", {"clientId": "acme"}),
        ("remove_project", {"clientId": "acme", "projectId": "shop"}),
    )
    ADMINISTRATION: tuple[tuple[str, dict[str, Any]], ...] = (
        ("get_client", {"clientId": "acme"}),
        ("add_client", {"clientId": "acme", "body": {}}),
        ("remove_client", {"clientId": "nobody"}),
        ("get_removal_report", {"clientId": "acme"}),
        ("reconcile", {"body": {}}),
        ("get_index_status", {}),
        ("reindex", {"body": {"model": "no-such-model"}}),
        ("roll_back_reindex", {"body": {}}),
        ("plan_bulk", {"body": {"kind": "ingest"}}),
        ("start_bulk", {"body": {"kind": "ingest"}}),
        ("list_bulk_jobs", {}),
        ("get_bulk_job", {"jobId": "20260101T000000-abcdef"}),
        ("cancel_bulk_job", {"jobId": "20260101T000000-abcdef"}),
    )

    def test_these_are_all_routes_of_the_function(self) -> None:
        names = {name for name, _ in (*self.WRITES, *self.PROJECTS, *self.HOLDS, *self.ADMINISTRATION)} | SOURCES
        names |= {"calibrate", "discard_calibration", "get_calibration", "get_usage", "get_costs"}
        assert names == {name for name, route in ROUTE.items() if route.function == "manage_knowledge"}

    @pytest.mark.parametrize(("name", "request_"), [*WRITES, *PROJECTS, *HOLDS, *ADMINISTRATION])
    @pytest.mark.parametrize("caller", [None, {}, READER, a_token(scopes=""), a_token(scopes="opx/writer xopx/write")])
    def test_writing_needs_the_scope_of_a_token(
        self, refusing: Handler, name: str, request_: dict[str, Any], caller: dict[str, Any] | None
    ) -> None:
        assert refusal(call(refusing, name, caller=caller, **request_)) == (403, "forbidden")

    @pytest.mark.parametrize(("name", "request_"), WRITES)
    def test_a_token_without_a_client_does_not_write_global_documents(
        self, refusing: Handler, name: str, request_: dict[str, Any]
    ) -> None:
        assert refusal(call(refusing, name, caller=a_token(), **request_)) == (403, "forbidden")

    @pytest.mark.parametrize(("name", "request_"), [write for write in WRITES if write[0] not in NEEDING_ONE])
    @pytest.mark.parametrize("caller", [ADMIN, ROLE])
    def test_an_administrator_and_the_installation_itself_do(
        self, handler: Handler, name: str, request_: dict[str, Any], caller: dict[str, Any]
    ) -> None:
        assert call(handler, name, caller=caller, **request_)[0] == ROUTE[name].status

    @pytest.mark.parametrize(("name", "request_"), PROJECTS)
    def test_projects_are_for_administrators(self, handler: Handler, name: str, request_: dict[str, Any]) -> None:
        assert refusal(call(handler, name, caller=ACME, **request_)) == (403, "forbidden")
        assert call(handler, name, caller=a_token("acme", scopes="opx/admin"), **request_)[0] == 200

    @pytest.mark.parametrize(("name", "request_"), HOLDS)
    def test_holds_are_for_administrators(self, handler: Handler, name: str, request_: dict[str, Any]) -> None:
        assert refusal(call(handler, name, caller=ACME, **request_)) == (403, "forbidden")
        assert call(handler, name, caller=a_token("acme", scopes="opx/admin"), **request_)[0] in (200, 400, 404)

    @pytest.mark.parametrize(("name", "request_"), ADMINISTRATION)
    def test_clients_and_the_index_are_for_operators(
        self, handler: Handler, name: str, request_: dict[str, Any]
    ) -> None:
        assert refusal(call(handler, name, caller=a_token("acme", scopes="opx/admin"), **request_)) == (
            403,
            "forbidden",
        )
        assert call(handler, name, caller=a_token(scopes="opx/admin"), **request_)[0] in (200, 202, 400, 404)

    def test_a_role_writes_to_the_configured_scope(self, services: System, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(
            services.installation, "settings", replace(services.settings, client_id="acme", project_id="shop")
        )
        body = {"document": TEXT, "metadata": {"source": "x"}}
        found = call(make_handler(lambda: services), "ingest", body=body, caller=ROLE, **PROCEDURES)[1]
        key = "clients/acme/projects/shop/documents/runbooks/procedures/x.md"
        assert found["accepted"] == [{"objectKey": key}]
