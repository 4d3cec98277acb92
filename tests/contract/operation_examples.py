"""A small system in which every operation has something to work on, and an example request of each operation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from opx.domain.record import Json
from opx.domain.scopes import Identity, Scope
from opx.operations import load
from opx.operations.context import Caller
from tests.contract.operation_edges import AGENT, BUILT, CALLER, Edge, EdgeReply, World, id_of, local, opened, put

REGISTRY = load()
OWN = Scope(CALLER.client_id, project_id=CALLER.project_id)
UNKNOWN = "0" * 32
RIVAL = Caller(Identity("rival", "depot", AGENT), agent=AGENT)
PROBLEM = "The nightly export stops with a lock timeout"
OTHER_PROBLEM = ("Certificates of the proxy expired", "Renew them by a job")
THIRD_PROBLEM = ("Pods are evicted for disk pressure", "Delete unused images")
DISK = "# Disk full\n\n## Fix\n\n1. Delete rotated logs.\n2. {}\n\nservice:web|DEPENDS_ON|service:db\n"

DISK_FACTS = {"tags": ["disk"], "services": ["web"]}


# -- what the system holds


def build(home: Path) -> dict[str, str]:
    """Fills the folder; the ids of what is in it."""
    with opened(home, now=BUILT) as world:
        ids = of_documents(world)
        values = [{"node": "web-1", "metric": "cpu", "value": float(n % 7)} for n in range(40)]
        done(world, "add_values", values=values)
        ids |= of_learning(world)
        ids |= of_rival(replace(world, caller=RIVAL))
        ids |= of_curation(world, ids)
        for name in ("forum", "webhook-alerts"):
            done(world, "set_secret", name=name, value="hush")
        ids["notes"] = of_sources(world, home.parent / "notes")
        ids["archive"] = str(home.parent / "archive.zip")
        done(world, "export_archive", path=ids["archive"])
        done(world, "measure_usage")
        ids |= of_quality(world, ids["own"])
        ids["bulk_job"] = done(world, "start_bulk", kind="ingest", prefix="clients/rival/")["job"]["jobId"]
        return ids


def of_documents(world: World) -> dict[str, str]:
    """Ids and keys of documents: one in two versions, one held, one expired, one broken, one of another client."""
    services = world.services
    keys = {
        "own": put(services, OWN, "runbooks/disk.md", DISK.format("Grow the volume."), DISK_FACTS),
        "held": put(services, OWN, "runbooks/held.md", "# Held\n\nKept for a matter.\n"),
        "expired": put(services, OWN, "runbooks/pool.md", "# Pool\n\nUse the pool.\n", {"expires": "2025-06-17"}),
        "postmortem": put(services, OWN, "postmortems/kafka.md", "# Kafka lag\n\nA rebalance storm.\n"),
        "pool_guide": put(services, OWN, "runbooks/db-guide.md", "# Ledger pool\n\nThe pool timeout is 30 s.\n"),
        "pool_page": put(services, OWN, "runbooks/db-page.md", "# Ledger pool\n\nThe pool timeout is 90 s.\n"),
        "rival": put(services, Scope("rival"), "runbooks/vault.md", "# Vault\n\nThree key holders unseal the vault.\n"),
    }
    broken = put(services, OWN, "runbooks/broken.md", "")
    list(services.manager.work())
    ids = {name: id_of(services, key) for name, key in keys.items()}
    put(services, OWN, "runbooks/disk.md", DISK.format("Move the archives."), DISK_FACTS)
    list(services.manager.work())
    return ids | {
        "old": ids["own"],
        "own": id_of(services, keys["own"]),
        "own_key": keys["own"],
        "held_key": keys["held"],
        "rival_key": keys["rival"],
        "broken": broken,
    }


def of_learning(world: World) -> dict[str, str]:
    """Ids of a receipt, of entries, and of patterns, two of which are merged."""
    done(world, "query", query="brew espresso")
    found = done(world, "query", query="disk full", config={"minConfidence": 0}, receipt=True)
    ids = {"receipt": found["receiptId"], "receipt_text": json.dumps(found["receipt"])}
    ids["waiting"] = done(world, "capture_entry", **a_failure(occurrence="a"))["id"]
    ids["worked"] = done(world, "capture_entry", **a_failure(success_verified=True))["id"]
    for text, step in (OTHER_PROBLEM, THIRD_PROBLEM):
        other = {"failure_description": text, "solution_steps": [step], "success_verified": True}
        done(world, "capture_entry", **a_failure(**other))
    done(world, "process_checkpoint")
    list(world.services.manager.work())
    known = {one["problem"]: one["patternId"] for one in done(world, "list_patterns")["patterns"]}
    ids |= {"pattern": known[PROBLEM], "other_pattern": known[OTHER_PROBLEM[0]], "merged": known[THIRD_PROBLEM[0]]}
    done(world, "merge_patterns", patternId=ids["pattern"], otherId=ids["merged"])
    return ids


def of_curation(world: World, ids: Mapping[str, str]) -> dict[str, str]:
    """Ids of a merge, a hold, a gap and a failure."""
    done(world, "add_alias", alias="service:www", canonical="service:web")
    merge = done(world, "merge_nodes", **{"from": "service:store", "into": "service:db"})
    done(world, "seal_stores")
    hold = done(world, "add_hold", reason="a matter", document=ids["held"])
    done(world, "assign_project", clientId="acme", projectId="depot", groupId="retail")
    return {
        "merge": merge["mergeId"],
        "hold": hold["holdId"],
        "gap": done(world, "list_gaps")["gaps"][0]["gapId"],
        "failure": done(world, "list_failures")["failures"][0]["failureId"],
    }


def of_sources(world: World, notes: Path) -> str:
    """The folder of a source, which stands beside a stream."""
    redis = {"source": "redis://127.0.0.1:6379/0", "topic": "events", "category": "operations/alerts"}
    done(world, "subscribe_stream", name="events", **redis)
    notes.mkdir()
    (notes / "a.md").write_text("# A note\n\ntext\n")
    definition = {"kind": "directory", "category": "runbooks/procedures", "options": {"path": str(notes)}}
    done(world, "register_source", sourceId="notes", definition=definition)
    return str(notes)


def of_quality(world: World, document_id: str) -> dict[str, str]:
    """Ids of a contradiction, an own question, which is a canary, and an evaluation run."""
    found = done(world, "list_contradictions")["contradictions"][0]
    question = done(world, "add_own_question", text="disk full", documentIds=[document_id])["questionId"]
    run = done(world, "run_evaluation")["runId"]
    done(world, "mark_canary", questionId=question)
    return {"contradiction": found["contradictionId"], "question": question, "run": run}


def of_rival(world: World) -> dict[str, str]:
    """Ids of what another client has: an entry, a pattern, a receipt and a gap."""
    found = done(world, "query", query="unseal the vault", config={"minConfidence": 0}, receipt=True)
    done(world, "query", query="brew espresso")
    entry = done(world, "capture_entry", **a_failure(occurrence="theirs"))["id"]
    done(world, "capture_entry", **a_failure(success_verified=True))
    done(world, "process_checkpoint")
    list(world.services.manager.work())
    pattern = done(world, "list_patterns")["patterns"][0]["patternId"]
    gap = done(world, "list_gaps")["gaps"][0]["gapId"]
    return {
        "rival_entry": entry,
        "rival_pattern": pattern,
        "rival_receipt": found["receiptId"],
        "rival_gap": gap,
    }


def a_failure(**changes: object) -> Json:
    steps = ["Run the export on the read replica"]
    return {"entry_type": "failure_solution", "failure_description": PROBLEM, "solution_steps": steps, **changes}


def done(world: World, name: str, /, **fields: object) -> Any:
    reply = called(local, world, name, fields)
    assert not reply.code, reply
    return reply.data


def called(edge: Edge, world: World, name: str, fields: Mapping[str, object]) -> EdgeReply:
    operation = REGISTRY.get(name)
    assert operation is not None
    return edge(world, operation, dict(fields))


# -- examples

Example = Callable[[World], Json]


def fixed(**fields: object) -> Example:
    return lambda _: dict(fields)


def ids(**names: str) -> Example:
    """A request whose fields are ids of what the system holds."""
    return lambda world: {field: world.ids[name] for field, name in names.items()}


def outcome_of(world: World, **changes: object) -> Json:
    return {"receiptId": world.ids["receipt"], "documentId": world.ids["own"], "result": "resolved", **changes}


def a_source(world: World) -> Json:
    return {"kind": "directory", "category": "runbooks/procedures", "options": {"path": world.ids["notes"]}}


EXAMPLES: Mapping[str, Example] = {
    # administration
    "list_clients": fixed(),
    "get_client": fixed(clientId="acme"),
    "add_client": fixed(clientId="newcomer"),
    "remove_client": fixed(clientId="rival"),
    "get_removal_report": fixed(clientId="rival"),
    "export_archive": lambda world: {"path": str(world.home.parent / "out.zip")},
    "import_archive": lambda world: {"path": world.ids["archive"], "merge": True, "dryRun": True},
    "reconcile": fixed(),
    "rebuild": fixed(),
    "get_index_status": fixed(),
    "reindex": fixed(),
    "force_reindex": fixed(),
    "roll_back_reindex": fixed(),
    "discard_indexes": fixed(),
    # bulk
    "plan_bulk": fixed(kind="ingest"),
    "start_bulk": fixed(kind="ingest", prefix="clients/rival/"),
    "list_bulk_jobs": fixed(),
    "get_bulk_job": ids(jobId="bulk_job"),
    "cancel_bulk_job": ids(jobId="bulk_job"),
    # integrity
    "repair_stores": fixed(),
    "seal_stores": fixed(),
    "compare_seal": fixed(),
    "prove_receipt": lambda world: {"receipt": json.loads(world.ids["receipt_text"])},
    "make_signing_key": lambda world: {"path": str(world.home.parent / "key.pem")},
    # alerts
    "list_alerts": fixed(limit=5),
    "import_alert_rules": fixed(name="disk.yaml", rules="alerts: [{name: DiskFull, runbook: disk.md}]"),
    "bind_alert": lambda world: {"alert": "DiskFull", "documentId": world.ids["own"]},
    "assign_alert": fixed(alert="DiskFull", owner="platform"),
    "get_alert_use": fixed(since="1w"),
    # baselines
    "get_baseline_stats": fixed(node="web-1", metric="cpu", timeWindow="30d", value=40.5, hour=3),
    "list_baseline_series": fixed(),
    "add_values": fixed(values=[{"node": "web-2", "metric": "cpu", "value": 1.5}], batchId="b-1"),
    "get_baseline": fixed(node="web-1", metric="cpu", timeWindow="30d", value=40.5),
    # calibration
    "get_calibration": fixed(),
    "calibrate": fixed(),
    "discard_calibration": fixed(),
    # corpus
    "get_status": fixed(),
    "ingest": fixed(
        tier="internal", category="runbooks/procedures", document="# New\n\ntext\n", metadata={"source": "n.md"}
    ),
    "prepare_parts": fixed(source="docs/a.pdf", size=10),
    "complete_upload": fixed(source="docs/a.pdf", size=10, uploadId="f" * 32),
    "prepare_upload": fixed(source="docs/a.md", sha256="ab" * 32, size=10, metadata={"title": "A"}),
    "list_objects": fixed(under="runbooks"),
    "get_object_states": lambda world: {"objectKeys": [world.ids["own_key"], world.ids["broken"]]},
    "delete_objects": lambda world: {"objectKeys": [world.ids["own_key"]]},
    "delete_document": ids(documentId="own"),
    "restore_document": ids(documentId="old"),
    "list_failures": fixed(limit=3),
    "retry_failures": lambda world: {"failureIds": [world.ids["failure"], UNKNOWN]},
    # texts
    "read_text": fixed(source="runbooks/held.md"),
    "write_text": fixed(source="runbooks/new.md", text="# New\n\nA text.\n"),
    # duplicates
    "list_duplicates": fixed(category="runbooks"),
    # contradictions
    "list_contradictions": fixed(category="runbooks", limit=3),
    "dismiss_contradiction": lambda world: {"contradictionId": world.ids["contradiction"], "because": "two sites"},
    # documents
    "list_documents": fixed(category="runbooks", allVersions=True, limit=3),
    "get_document": ids(documentId="own"),
    "read_chunks": ids(documentId="own"),
    "list_categories": fixed(),
    "diff_document": lambda world: {"documentId": world.ids["own"], "from": 1, "to": 2},
    "explain_provenance": ids(documentId="own"),
    "get_document_details": ids(documentId="own"),
    # evidence
    "put_evidence": fixed(
        agent_type="a", outcome="investigated", task="Why?", conclusion=("A leak.",), evidence_id="run-1"
    ),
    # graph
    "get_node": fixed(ref="service:web", limit=5),
    "list_neighbours": fixed(ref="service:web", hops=2, type=["depends_on", "runs_on"], direction="out", limit=7),
    "find_path": fixed(**{"from": "service:web", "to": "service:db"}),
    "find_nodes": fixed(q="we", type="service"),
    "list_changes": fixed(ref="service:web", side="downstream"),
    "list_affected": fixed(cve="CVE-2024-1234"),
    "get_graph_coverage": fixed(limit=10),
    "list_aliases": fixed(),
    "list_merges": fixed(),
    "add_alias": fixed(alias="service:site", canonical="service:web"),
    "remove_alias": fixed(alias="service:www"),
    "merge_nodes": fixed(**{"from": "service:cache", "into": "service:web"}),
    "undo_merge": ids(mergeId="merge"),
    "relink": fixed(),
    "find_related": fixed(reference="service:web", hops=2, edgeTypes="depends_on"),
    "explain_relation": fixed(fromReference="service:web", toReference="service:db"),
    # learning
    "list_entries": fixed(limit=1),
    "capture_entry": fixed(entry_type="warning", tried="restart the broker", effect="made_worse"),
    "verify_entry": lambda world: {"entryId": world.ids["waiting"], "worked": True, "incident": "INC-7"},
    "process_checkpoint": fixed(checkpointType="manual"),
    "capture_failure_solution": fixed(failureDescription="No space", solutionSteps="Delete logs", technology="linux"),
    "verify_solution": lambda world: {"entryId": world.ids["waiting"], "result": "worked"},
    "capture_gate_rejection": fixed(gateType="security_review", humanFeedback="no", revisionApproach="r"),
    "capture_gate_approval": fixed(gateType="security_review", approvedApproach="a queue a client"),
    "capture_warning": fixed(tried="restart the broker", effect="made_worse"),
    # lifecycle
    "list_reviews": fixed(days=3650),
    "mark_reviewed": lambda world: {"documentId": world.ids["own"], "days": 90},
    "list_prunings": fixed(),
    "prune_expired": fixed(dryRun=True),
    "list_holds": fixed(),
    "add_hold": lambda world: {"reason": "another matter", "document": world.ids["own"]},
    "lift_hold": ids(holdId="hold"),
    # outcomes
    "record_outcome": lambda world: outcome_of(world, note="again"),
    "get_document_outcomes": ids(documentId="own"),
    "report_outcome": outcome_of,
    # patterns
    "list_patterns": fixed(limit=3),
    "get_pattern": ids(patternId="pattern"),
    "find_patterns_for_task": fixed(taskDescription=PROBLEM, maxResults=2),
    "find_patterns_for_failure": fixed(failureDescription=PROBLEM),
    "find_patterns_for_gate": fixed(gateType="security_review", proposal="Read the password at start-up"),
    "merge_patterns": ids(patternId="pattern", otherId="other_pattern"),
    "split_pattern": lambda world: {"patternId": world.ids["pattern"], "ids": [world.ids["merged"]]},
    "get_task_context": fixed(taskDescription=PROBLEM),
    "query_for_task": fixed(taskDescription=PROBLEM, maxResults=2),
    "query_for_failure": fixed(failureDescription=PROBLEM),
    "query_for_gate": fixed(gateType="security_review"),
    "build_context_for_task": fixed(task=PROBLEM),
    "retire_pattern": lambda world: {"patternId": world.ids["pattern"], "because": "the export is gone"},
    # projects
    "get_project": fixed(clientId="acme", projectId="shop"),
    "assign_project": fixed(clientId="acme", projectId="shop", groupId="retail"),
    "preview_project_move": fixed(clientId="acme", projectId="shop", groupId="retail"),
    "list_projects": fixed(clientId="acme"),
    "remove_project": fixed(clientId="acme", projectId="depot"),
    # questions
    "list_audit_records": lambda world: {"documentId": world.ids["own"][:8], "limit": 5},
    "get_audit_record": ids(receiptId="receipt"),
    "get_answer": lambda world: {"receiptId": world.ids["receipt"], "question": "disk full"},
    "list_gaps": fixed(settled=True),
    "check_gaps": fixed(limit=5),
    "settle_gap": lambda world: {"gapId": world.ids["gap"], "because": "nobody drinks it"},
    "assign_gap": lambda world: {"gapId": world.ids["gap"], "owner": "platform"},
    "report_gap": fixed(question="How do we rotate the vault keys?", missing="No page says who holds them."),
    # quality
    "list_own_questions": fixed(limit=5),
    "add_own_question": lambda world: {"text": "volume full", "documentIds": [world.ids["own"]]},
    "remove_own_question": ids(questionId="question"),
    "list_evaluations": fixed(limit=5),
    "list_canaries": fixed(results=3),
    "run_canaries": fixed(),
    "mark_canary": ids(questionId="question"),
    "run_evaluation": fixed(),
    "get_evaluation": ids(runId="run"),
    "compare_evaluations": lambda world: {"runId": world.ids["run"], "with": world.ids["run"]},
    # reading
    "get_resource": fixed(resource="web", since="52w"),
    "read_document": lambda world: {"document": world.ids["own"], "part": "steps"},
    "find_procedure": fixed(alert="disk full", labels="namespace=prod"),
    # search
    "search": fixed(q="disk full", limit=3, category=["runbooks", "postmortems"], expand="section", receipt=True),
    "query": fixed(query="disk full", config={"minConfidence": 0, "maxResults": 2}),
    "research": fixed(topic="disk full", maxIterations=1, config={"minConfidence": 0}),
    "search_runbooks": fixed(query="disk full delete rotated logs", maxResults=2),
    "search_postmortems": fixed(query="kafka lag rebalance storm"),
    "search_docs": fixed(query="disk full", thoroughness="fast", limit=2),
    "research_topic": fixed(topic="disk full", maxIterations=1),
    # sources
    "list_sources": fixed(),
    "list_source_kinds": fixed(),
    "try_source": lambda world: {"definition": a_source(world), "limit": 2},
    "change_source": fixed(sourceId="notes", enabled=False, tags=["wiki"]),
    "register_source": lambda world: {"sourceId": "more", "definition": a_source(world)},
    "remove_source": fixed(sourceId="notes"),
    "pull_source": fixed(sourceId="notes"),
    "check_source": fixed(sourceId="notes"),
    "crawl_site": fixed(urls=["http://127.0.0.1:9/"], category="runbooks/procedures"),
    "list_streams": fixed(),
    "subscribe_stream": fixed(
        source="redis://127.0.0.1:6379/0", topic="alerts", category="operations/alerts", name="alerts"
    ),
    "end_stream": fixed(name="events"),
    # telemetry
    "query_logs": fixed(query="error", logGroup="/ecs/shop", limit=5),
    "correlate_metrics": fixed(metric="cpu", node="i-1", candidates="net"),
    "analyze_traces": fixed(service="shop"),
    # usage
    "get_usage": fixed(month="2025-06"),
    "get_costs": fixed(limit=3),
    "measure_usage": fixed(day="2025-06-20"),
    # masked secrets
    "list_masked_secrets": fixed(limit=3),
    "protect_originals": fixed(),
    # webhooks
    "list_webhooks": fixed(),
    "make_webhook_secret": fixed(name="alerts", replace=True),
    "send_test_delivery": fixed(name="alerts"),
    "list_secrets": fixed(),
    "set_secret": fixed(name="other", value="hush"),
    "remove_secret": fixed(name="forum"),
}
