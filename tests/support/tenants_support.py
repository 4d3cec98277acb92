"""Clients with items in every store, and the contents of all stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from opx.connectors.deliveries import DocumentUpdate
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.ingestion.contexts import ContextCache, ContextWriter
from opx.ingestion.events import ObjectEvent
from opx.lifecycle.retention.holds import Hold, Holds
from opx.operations.system import System
from opx.ports.models import ChatReply, ChatRequest, read_answer
from opx.ports.tables import ALL_TABLES, AUDIT, DELIVERIES, EMBEDDINGS, GAPS, LIFECYCLE, from_row, to_json
from opx.settings import Settings
from opx.system import bootstrap
from opx_streams.webhooks.remembering import Order
from opx_telemetry.capability import baselines
from opx_testing.fake_time import FakeTime
from tests.support.builders import ports_of
from tests.support.captures import capture_failure_solution
from tests.support.cli_support import WordEmbedder
from tests.support.graph_support import an_origin

PROCEDURES = "runbooks/procedures"
CLIENT, OTHER = "acme", "acme-b"
"""Two clients, one id being a prefix of the other."""

COMMON = "# Common\n\nThe egret that both have."


class Contexts:
    """A `ChatModel` that returns a context for every passage."""

    name = "contexts"

    def ask(self, request: ChatRequest) -> ChatReply:
        given = json.loads(request.data)
        found = [{"id": one["id"], "context": f"About {given['title']}."} for one in given["passages"]]
        return ChatReply(read_answer(request.answer, {"contexts": found}))


def services_at(home: Path, time: FakeTime | None = None, **settings: Any) -> System:
    """A system in a folder; its clock stands still by default."""
    services = bootstrap(
        Settings(home=str(home), **settings), clock=(time or FakeTime()).clock, embedder=WordEmbedder()
    )
    cache = ContextCache(services.tables.table(EMBEDDINGS), days=90, clock=services.clock)
    services.ingestion.context_writer = ContextWriter(Contexts(), cache)
    return services


def fill(services: System, client: str) -> None:
    """Fill every store for the client: documents in versions, of a group and a project; one that both clients have, a
    failed and a deleted one; queries, baseline values, aliases, and orders of deliveries."""
    services.corpus.projects.assign(client, "shop", "payments")
    for scope in (Scope(client), Scope(client, project_id="shop"), Scope(client, group_id="payments")):
        put_documents(services, client, scope)
    manager = services.ingestion.manager_of(Scope(client))
    manager.ingest_document("internal", PROCEDURES, COMMON, {"source": "same", "tags": ["common"]})
    gone = manager.ingest_document("internal", PROCEDURES, f"# Old\n\nThe {client} heron.", {"source": "old"})
    manager.delete(gone)
    manager.put_document(PROCEDURES, b"%PDF-1.4 broken", {"source": "broken.pdf"})
    list(manager.work())
    keep_questions_and_values(services, client)
    keep_what_work_taught(services, client)


def put_waiting(services: System, client: str) -> None:
    """Put a document whose event is still queued, and names that a killed process declared."""
    manager = services.ingestion.manager_of(Scope(client))
    manager.put_document(PROCEDURES, f"# Waiting\n\nThe {client} ibis.", {"source": "waiting"})
    for scope in (Scope(client), Scope(client, project_id="shop")):
        services.graph.relink_queue.add(an_origin(scope=scope), [f"host:{client}-db-1"])


def put_documents(services: System, client: str, scope: Scope) -> None:
    manager = services.ingestion.manager_of(scope)
    relation = f'relationships: [ "service:checkout{client}|DEPENDS_ON|service:pay{client}" ]'
    for text in ("walrus", "zebrafish"):  # two versions
        document = f"# Disk full at {client}\n\n{relation}\n\nRestart the {client} {text}. {scope.key}"
        manager.ingest_document("internal", PROCEDURES, document, {"source": "disk", "tags": [f"tag-{client}"]})


def keep_questions_and_values(services: System, client: str) -> None:
    services.graph.aliases.register(Scope(client), f"service:{client}-co", f"service:checkout{client}", by="ann")
    services.part(baselines).add(
        [{"node": client, "metric": "cpu", "value": 1.0}], scope=Scope(client, project_id="values")
    )
    record = {"node": client, "metric": "io", "time_window": "7d", "mean": 1, "stddev": 1, "samples": 9}
    services.part(baselines).put_record(record, scope=Scope(client, group_id="records"))
    services.questions.for_reader(Identity(client, "asker", f"bob@{client}")).query(f"quantum gearbox of {client}")
    object_key = f"clients/{client}/documents/{PROCEDURES}/disk.md"
    orders = Order(services.tables.table(DELIVERIES), services.clock)
    change = DocumentUpdate("disk", time="2026-11-01T00:00:00Z")
    lease = orders.begin(object_key, change)
    assert lease
    orders.end(lease)
    services.corpus.announcements.record([(ObjectEvent(object_key, False, "FFFF").to_json(), services.clock())])


def keep_what_work_taught(services: System, client: str) -> None:
    """Add a captured entry, a pattern, an outcome with its warning, calendar entries, and a lifted hold."""
    identity = Identity(client, "shop", f"bob@{client}")
    capture = services.learning.capture(identity)
    facts = ("shop", "fixer", "deploy", f"The {client} gannet lags", "", [f"Restart the {client} gannet"], "kafka")
    capture_failure_solution(capture, *facts, success_verified=True)
    services.learning.checkpoints(identity).process_checkpoint("shop", "manual")
    capture_failure_solution(capture, "shop", "fixer", "deploy", f"The {client} puffin waits", "", ["Look"], "kafka")
    due = {"source": "due", "expires": "2031-01-01", "review_by": "2030-01-01"}
    services.ingestion.manager_of(Scope(client)).ingest_document(
        "internal", PROCEDURES, f"# Due\n\nThe {client} auk.", due
    )
    incident = f"# Outage\n\nThe {client} crake stopped."
    found = services.ingestion.manager_of(Scope(client)).ingest_document("internal", "operations/incidents", incident)
    services.corpus.uses.note(services.corpus.projects.reader(identity), [(found, "operations/incidents")])
    answer = services.questions.for_reader(identity).search(f"{client} auk", QueryConfig(min_confidence=0.0))
    receipt, found = (answer.receipt or {})["receiptId"], answer.results[0].document_id
    services.learning.outcomes(identity).record(receipt, found, "made_worse", step=f"Restart the {client} auk")
    holds = Holds(services.tables.table(LIFECYCLE), services.clock)
    holds.lift(holds.add(Hold("matter 7", "ann", within=Scope(client).key)).id, "ann")


def rows(services: System) -> set[tuple[str, str]]:
    """Every item of every table and queue, by table, and every corpus file with its content."""
    found: set[tuple[str, str]] = set()
    for spec in ALL_TABLES:
        services.tables.table(spec)
        database: Any = ports_of(services)._home.questions if spec in (AUDIT, GAPS) else ports_of(services)._home.main
        query = f'SELECT _item FROM "{spec.name}"'
        found |= {(spec.name, to_json(from_row(row[0]))) for row in database.connection().execute(query)}
    messages = ports_of(services)._home.main.connection().execute("SELECT body FROM queue_messages")
    corpus = services.settings.home_path / "corpus"
    files = {(str(path.relative_to(corpus)), path.read_text("latin-1")) for path in corpus.rglob("*") if path.is_file()}
    return found | {("queue", row[0]) for row in messages} | files
