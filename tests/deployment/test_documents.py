"""The way of a document: bucket, event, queue, function, index, answer."""

from __future__ import annotations

from opx.ports.tables import DOCUMENTS
from tests.deployment.system import INGEST, RETRIEVE, SystemUnderTest, eventually


def test_uploaded_runbook_is_ingested_and_answers_a_question_with_its_source(system: SystemUnderTest) -> None:
    system.put("documents/runbooks/turbine.md", "# Turbine overspeed\n\nClose the governor valve of the turbine.")
    document = system.ingested("documents/runbooks/turbine.md", "governor valve")
    assert document.versions == {1: "current"}
    answer = eventually(lambda: _answer(system, "turbine overspeed", "governor valve"))
    assert "Source: Turbine overspeed" in answer
    assert document.document_id in answer


def test_a_changed_document_replaces_the_version_before(system: SystemUnderTest) -> None:
    key = "documents/runbooks/pump.md"
    system.put(key, "# Feed pump cavitation\n\nThrottle the feed pump to half.")
    system.ingested(key, "to half")
    system.put(key, "# Feed pump cavitation\n\nRaise the suction pressure of the feed pump.")
    document = system.ingested(key, "suction pressure")
    assert document.versions == {1: "superseded", 2: "current"}
    answer = eventually(lambda: _answer(system, "feed pump cavitation", "suction pressure"))
    assert "to half" not in answer


def test_a_deleted_document_is_no_longer_found_and_its_versions_stay_listed(system: SystemUnderTest) -> None:
    key = "documents/runbooks/boiler.md"
    system.put(key, "# Boiler low water\n\nTrip the boiler burner at once.")
    system.ingested(key, "burner")
    system.delete(key)
    eventually(lambda: system.state(key).versions == {1: "deleted"})
    eventually(lambda: not system.state(key).entries)
    assert "burner" not in system.ask("boiler low water")


def test_a_client_s_document_answers_that_client_only(system: SystemUnderTest) -> None:
    key = "clients/acme/documents/runbooks/kiln.md"
    system.put(key, "# Kiln shell hot spot\n\nSlow the acme kiln and fan the hot spot.")
    system.ingested(key, "hot spot")
    eventually(lambda: "fan the hot spot" in system.ask("kiln hot spot", {"opxClientId": "acme"}))
    assert "fan the hot spot" not in system.ask("kiln hot spot", {"opxClientId": "other"})
    assert "fan the hot spot" not in system.ask("kiln hot spot")


def test_functions_report_what_they_did_as_metrics_in_their_logs(system: SystemUnderTest) -> None:
    before = system.metrics(INGEST), system.metrics(RETRIEVE)
    system.put("documents/runbooks/crane.md", "# Crane brake slipping\n\nLower the load of the crane.")
    system.ingested("documents/runbooks/crane.md", "Lower the load")
    system.ask("crane brake")
    eventually(lambda: system.metrics(INGEST)["DocumentsIngested"] > before[0].get("DocumentsIngested", 0))
    eventually(lambda: system.metrics(RETRIEVE)["Queries"] > before[1].get("Queries", 0))


def test_object_outside_the_documents_folder_is_not_ingested(system: SystemUnderTest) -> None:
    system.s3.put_object(Bucket=system.bucket, Key="elsewhere/note.md", Body=b"# Not a document")
    system.put("documents/runbooks/valve.md", "# Valve stuck\n\nExercise the valve.")
    system.ingested("documents/runbooks/valve.md", "Exercise")
    assert not any("elsewhere" in str(item) for item in system.items(DOCUMENTS))


def _answer(system: SystemUnderTest, question: str, expected: str) -> str:
    answer = system.ask(question)
    return answer if expected in answer else ""
