"""Metadata without a meaning of their own are kept with a document: on one machine and on AWS, by whatever way they came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.errors import StoreUnavailableError
from opx.ingestion.events import SIDECAR_SUFFIX, Result
from opx.lifecycle.versions.differences import Restorer
from opx.retrieval.stages import NO_METADATA
from opx_assurance.capability import assurance
from tests.e2e.systems import SystemUnderTest
from tests.support.archive_support import services_at
from tests.support.cli_support import Opx

ANY = QueryConfig(min_confidence=0)
GIVEN: dict[str, Any] = {
    "node": "web-01",
    "cvss": 9.8,
    "ports": [80, 443.0],
    "open": False,
    "names": ["a", "ü"],
    "no": [],
}
KEY = "documents/runbooks/procedures/web.md"
TEXT = "# Web server is slow\n\nRestart the worker.\n"


def of_results(system: SystemUnderTest, config: QueryConfig = ANY, identity: Identity | None = None) -> dict[str, Any]:
    (found,) = system.services.questions.for_reader(identity).query("web server slow", config)
    return found.metadata


class TestStores:
    def test_those_of_a_sidecar_come_back(self, either: SystemUnderTest) -> None:
        sidecar = json.dumps({"metadataAttributes": GIVEN})
        either.services.store.put(KEY + SIDECAR_SUFFIX, sidecar.encode())
        either.put(KEY, TEXT)
        either.work()
        assert either.document(KEY).attributes == GIVEN
        assert of_results(either).items() >= GIVEN.items()

    def test_those_of_a_caller_come_back(self, either: SystemUnderTest) -> None:
        either.manager.ingest_document("internal", "runbooks/procedures", TEXT, {**GIVEN, "source": "web"})
        assert either.document(KEY).attributes == GIVEN
        assert of_results(either).items() >= GIVEN.items()

    def test_a_change_of_them_alone_is_a_change(self, either: SystemUnderTest) -> None:
        for node in ("a", "b"):
            either.manager.ingest_document("internal", "runbooks/procedures", TEXT, {"node": node, "source": "web"})
        assert either.document(KEY).attributes == {"node": "b"}
        assert of_results(either)["node"] == "b"

    def test_an_answer_as_of_a_past_time_has_those_of_that_time(self, embedded: SystemUnderTest) -> None:
        for node, more in (("a", ""), ("b", "Then wait.\n")):
            embedded.manager.ingest_document(
                "internal", "runbooks/procedures", TEXT + more, {"node": node, "source": "web"}
            )
            embedded.time.sleep(86_400)
        first = list(embedded.versions(KEY))[-1].current_since
        assert of_results(embedded)["node"] == "b"
        assert of_results(embedded, QueryConfig(min_confidence=0, as_of=first))["node"] == "a"

    def test_equal_documents_of_two_clients_have_their_own(self, either: SystemUnderTest) -> None:
        for client in ("acme", "other"):
            either.put(f"clients/{client}/{KEY}", TEXT, json.dumps({"node": f"{client}-01"}))
        either.work()
        for client in ("acme", "other"):
            assert of_results(either, identity=Identity(client))["node"] == f"{client}-01"

    def test_unreadable_documents_are_noted_and_the_passages_shown(
        self, embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        embedded.put(KEY, TEXT, json.dumps(GIVEN))
        embedded.work()

        def unavailable(*_: object) -> object:
            raise StoreUnavailableError("the table is away")

        monkeypatch.setattr(embedded.services.corpus.catalog, "current_versions", unavailable)
        answer = embedded.services.questions.for_reader().search("web server slow", ANY)
        assert [NO_METADATA in answer.notes, len(answer.results)] == [True, 1]

    @pytest.mark.parametrize("given", [{"loc": {"line": 1}}, {"rows": [[1]]}])
    def test_a_sidecar_with_others_is_refused_by_name(self, either: SystemUnderTest, given: dict[str, Any]) -> None:
        either.services.store.put(KEY + SIDECAR_SUFFIX, json.dumps({"metadataAttributes": given}).encode())
        either.put(KEY, TEXT)
        assert [one.result for one in either.work()][-1] is Result.FAILED
        assert repr(next(iter(given))) in either.reasons()[KEY]

    def test_a_sidecar_with_too_many_is_refused_with_the_limit(self, either: SystemUnderTest) -> None:
        given = {str(number): number for number in range(101)}
        either.services.store.put(KEY + SIDECAR_SUFFIX, json.dumps({"metadataAttributes": given}).encode())
        either.put(KEY, TEXT)
        either.work()
        assert "at most 100 fields of your own" in either.reasons()[KEY]

    def test_an_object_of_an_earlier_release_is_still_read(self, either: SystemUnderTest) -> None:
        either.put(KEY, TEXT, json.dumps({"loc": {"line": 1}, "node": "web-01", "title": "Web"}))
        assert [one.result for one in either.work()] == [Result.INGESTED]
        assert either.document(KEY).attributes == {"node": "web-01"}


class TestCopies:
    def test_a_restored_version_has_its_own(self, either: SystemUnderTest) -> None:
        ids = [
            either.manager.ingest_document(
                "internal", "runbooks/procedures", TEXT + more, {**GIVEN, "node": node, "source": "web"}
            )
            for node, more in (("a", ""), ("b", "Then wait.\n"))
        ]
        past = list(either.versions(KEY))[-1]
        Restorer(store=either.services.store, writer=either.manager, past=None).restore(past)
        either.work()
        assert either.document(KEY).document_id == ids[0]
        assert either.document(KEY).attributes == {**GIVEN, "node": "a"}

    def test_an_archive_has_them(self, tmp_path: Path) -> None:
        with services_at(tmp_path / "from") as services:
            manager = services.ingestion.manager_of(Scope("acme"))
            found = manager.ingest_document("internal", "runbooks/procedures", TEXT, {**GIVEN, "source": "web"})
            services.part(assurance).exporter().write(tmp_path / "all.opx")
        with services_at(tmp_path / "to") as services:
            services.part(assurance).importer().run(tmp_path / "all.opx")
            list(services.manager.work())
            (document,) = services.corpus.catalog.find(found)
            assert document.attributes == GIVEN


class TestCommand:
    @pytest.fixture
    def opx(self, tmp_path: Path) -> Opx:
        opx = Opx(tmp_path)
        path = opx.write("web.md", TEXT)
        path.with_name("web.md.metadata.json").write_text(json.dumps({"metadataAttributes": GIVEN}))
        assert opx("ingest", "--category", "runbooks/procedures", tmp_path / "docs").exit_code == 0
        return opx

    def test_a_document_is_shown_with_them(self, opx: Opx) -> None:
        shown = opx("show", "Web server is slow").stdout
        assert "  attributes:\n    node: web-01\n    cvss: 9.8\n    ports: 80, 443.0\n    open: False\n" in shown

    def test_they_are_in_the_json_of_a_document_and_of_results(self, opx: Opx) -> None:
        assert json.loads(opx("show", "--json", "Web server is slow").stdout)["attributes"] == GIVEN
        (found,) = json.loads(opx("search", "--json", "web server slow").stdout)["results"]
        assert found["metadata"].items() >= GIVEN.items()
