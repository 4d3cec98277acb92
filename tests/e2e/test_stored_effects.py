"""Effects of commands are stored with outlines. Answers are the same without them, and never those of another table."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from opx.domain.procedures import Classified, Effect
from opx.domain.record import to_json
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.errors import KnowledgeConfigError
from opx.ingestion.capability import Ingestion
from opx.ingestion.corpus.chunk_files import outline_data
from opx.operations.context import Caller, Context
from opx.operations.search import Query, query
from opx.ports.objects import read_object
from opx.text.procedures.effects import EffectTable, effect_table, read_effect_table
from opx.text.procedures.outline import outline_of
from opx_assurance.capability import assurance
from tests.e2e.systems import SystemUnderTest, key_of, outline_key

RUNBOOK = "documents/runbooks/kafka-lag.md"
TEXTS = {
    "en": "# Kafka lag\n\n## Steps\n\n1. Look at the lag.\n\n   ```bash\n   kubectl get pods\n   ```\n\n"
    "2. Delete the consumer: `kubectl delete ns kafka`.\n3. Page the team.\n",
    "de": "# Kafka-Rückstand\n\n## Maßnahmen\n\n1. Rückstand prüfen:\n\n   ```bash\n   kubectl get pods\n   ```\n\n"
    "2. Verbraucher löschen: `kubectl delete ns kafka`. Größe der Warteschlange prüfen.\n",
    "ja": "# Kafka の遅延\n\n1. 遅延を確認する。\n\n   ```bash\n   kubectl get pods\n   ```\n\n"
    "2. コンシューマーを再起動する: `kubectl rollout restart deploy/c`\n",
    "uk": "# Затримка Kafka\n\n1. Перевірте затримку: `kubectl get pods`.\n2. Видаліть: `kubectl delete ns kafka`.\n",
}
QUESTIONS = {
    "en": "kafka lag, delete the consumer",
    "de": "Kafka Rückstand prüfen",
    "ja": "遅延を確認",
    "uk": "затримка",
}


def ingest(system: SystemUnderTest, text: str) -> str:
    """The key of its outline."""
    system.put(RUNBOOK, text)
    system.work()
    return outline_key(RUNBOOK, system.document(RUNBOOK).document_id)


def stored(system: SystemUnderTest, outline: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(read_object(system.silent, outline) or b"")
    return found


def put_stored(system: SystemUnderTest, outline: str, effects: object) -> None:
    """Replaces the record of effects; None removes it, as earlier releases wrote outlines."""
    file = {**stored(system, outline), "effects": effects}
    system.silent.put(outline, json.dumps({name: part for name, part in file.items() if part is not None}).encode())


def documents(system: SystemUnderTest, question: str) -> str:
    client = LocalClient(Context(system.services, Caller(Identity(), owns_system=True)))
    found = client.call(query, Query(query=question, budget=1200)).documents
    assert found[0].content
    return json.dumps(to_json(found), ensure_ascii=False)


def effects_in(answer: str) -> dict[str, str]:
    (document, *_) = json.loads(answer)
    return {one["text"]: one["effect"] for step in document["steps"] for one in step.get("commands", ())}


def never(*_: object) -> Classified:
    raise AssertionError("a stored effect was found again")


@pytest.mark.parametrize("language", TEXTS)
def test_answers_from_stored_effects_equal_those_from_outlines_of_earlier_releases(
    embedded: SystemUnderTest, language: str
) -> None:
    outline = ingest(embedded, TEXTS[language])
    answer = documents(embedded, QUESTIONS[language])
    put_stored(embedded, outline, None)
    assert documents(embedded, QUESTIONS[language]) == answer
    assert effects_in(answer)["kubectl get pods"] == "read"


def test_effects_are_stored_and_shown_on_every_backend(
    either: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    outline = ingest(either, TEXTS["en"])
    table = either.services.questions.effects
    assert [one["effect"] for one in stored(either, outline)["effects"]["commands"]] == ["read", "destructive"]
    assert stored(either, outline)["effects"]["table"] == table.version
    monkeypatch.setattr(EffectTable, "classify", never)
    assert effects_in(documents(either, QUESTIONS["en"]))["kubectl delete ns kafka"] == "destructive"


def test_effects_of_another_table_are_found_anew(embedded: SystemUnderTest) -> None:
    ingest(embedded, TEXTS["en"])
    other = effect_table({"kubectl get": Classified(effect=Effect.COSTS)})
    embedded.services.installation.declare(read_effect_table, other)
    assert effects_in(documents(embedded, QUESTIONS["en"]))["kubectl get pods"] == "costs"


def test_installations_with_other_commands_have_other_tables() -> None:
    own = {"acmectl get": Classified(effect=Effect.READ)}
    versions = {effect_table(extra).version for extra in (None, own, {"acmectl get": Classified()})}
    assert len(versions) == 3
    assert effect_table(own).version == effect_table(dict(own)).version


ONE, UNKNOWN = {"effect": "read"}, {"effect": "harmless"}


@pytest.mark.parametrize(
    "effects", ["broken", {"table": 7}, {"table": "x", "commands": [ONE]}, {"table": "x", "commands": [ONE, UNKNOWN]}]
)
def test_a_damaged_record_is_logged_and_effects_are_found_anew(
    embedded: SystemUnderTest, caplog: pytest.LogCaptureFixture, effects: object
) -> None:
    outline = ingest(embedded, TEXTS["en"])
    answer = documents(embedded, QUESTIONS["en"])
    put_stored(embedded, outline, effects)
    with caplog.at_level(logging.WARNING):
        assert documents(embedded, QUESTIONS["en"]) == answer
    assert f"the effects of commands in {outline} are damaged" in caplog.text


def test_documents_are_ingested_beside_a_faulty_table(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(_: object) -> EffectTable:
        raise KnowledgeConfigError("unknown effect 'nonsense'")

    monkeypatch.setattr(embedded.services.installation, "declared", faulty)
    assert "effects" not in stored(embedded, ingest(embedded, TEXTS["en"]))


def test_an_outline_without_commands_is_stored_as_by_earlier_releases(embedded: SystemUnderTest) -> None:
    outline = ingest(embedded, "# Kafka lag\n\n1. Page the team.\n")
    assert "effects" not in stored(embedded, outline)
    assert documents(embedded, "kafka lag page the team")


def test_earlier_releases_ignore_the_record(embedded: SystemUnderTest) -> None:
    """They read the fields that they know, and unknown ones are ignored."""
    outline = ingest(embedded, TEXTS["en"])
    file = stored(embedded, outline)
    assert (file["rules"], list(file["outline"])) == (3, list(json.loads(outline_data(_plain(file)))["outline"]))


def _plain(file: dict[str, Any]) -> Any:
    return outline_of(file["outline"]["documentId"], file["outline"]["title"], file["outline"]["text"])


@pytest.mark.parametrize("with_effects", [True, False])
def test_a_damaged_outline_of_an_old_version_is_restored_as_it_was_stored(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch, with_effects: bool
) -> None:
    if not with_effects:  # as an earlier release ingests
        monkeypatch.setattr(Ingestion, "effects_of", lambda *_: None)
    outline = ingest(embedded, TEXTS["en"])
    assert ("effects" in stored(embedded, outline)) is with_effects
    before = read_object(embedded.silent, outline)
    ingest(embedded, TEXTS["en"] + "4. Report it.\n")
    embedded.silent.put(outline, b"{}")
    report = embedded.services.part(assurance).reconciler(thorough=True).run(repair=True)
    assert report.repaired == 1
    assert read_object(embedded.silent, outline) == before
    assert len(list(embedded.services.corpus.catalog.versions(key_of(RUNBOOK)))) == 2


def test_a_document_of_thirty_thousand_blocks_is_answered_from_stored_effects(
    embedded: SystemUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# Kafka lag\n\n" + "".join(f"{at}. Look: `ls d-{at}`\n" for at in range(1, 30_001))
    outline = ingest(embedded, text)
    assert len(stored(embedded, outline)["outline"]["units"]) == 30_000
    monkeypatch.setattr(EffectTable, "classify", never)
    assert "`ls d-" in documents(embedded, "kafka lag, look at d-77")
