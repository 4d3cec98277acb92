"""An archive with rows in every table that archives have, and seeded mutations of it, resealed as an attacker would."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opx.connectors.repository import SourceItem, SourceItems, definition_of
from opx.domain.documents import DocumentKey
from opx.domain.outcomes import OutcomeResult, RecordedOutcome
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity, Scope
from opx.lifecycle.retention.holds import Hold, Holds
from opx.operations.context import Caller, Context
from opx.operations.system import System
from opx.ports.tables import LIFECYCLE, SOURCES, USES
from opx.records.dismissals import Dismissals
from opx_assurance.capability import assurance
from opx_quality.canaries import ListCanaries, RunCanaries, list_canaries, run_canaries
from opx_quality.evaluation.kept import Evaluations
from opx_quality.quality import AddOwnQuestion, RunEvaluation, add_own_question, run_evaluation
from opx_streams import capability
from opx_streams.streams.definitions import stream_of
from opx_telemetry.capability import baselines
from tests.support.archive_support import Entries, put, resealed, services_at
from tests.support.captures import capture_failure_solution, capture_warning

SHOP = Identity("acme", "shop", "bob")
READERS = (SHOP, Identity("acme"), Identity("other"), Identity())
CONTRADICTION = f"{'0' * 32}-{'1' * 32}-01234567"
QUEUE = "arn:aws:sqs:eu-central-1:111122223333:alarms"


def a_whole_archive(folder: Path) -> Path:
    """Of five documents of four scopes, with everything that people, agents and sources leave beside them."""
    with services_at(folder / "from") as services:
        fill(services)
        services.part(assurance).exporter().write(folder / "whole.opx", audit=True)
    return folder / "whole.opx"


def fill(services: System) -> None:
    services.corpus.projects.assign("acme", "shop", "web")
    for scope in (Scope(), Scope("acme"), Scope("acme", project_id="shop"), Scope("other")):
        put(services, "restart", "Restart the heron. depends_on: service:pay", scope, tags=["birds"])
    put(services, "restart", "Restart the zebrafish.\n\n```sh\nrm -r /tmp/cache\n```", Scope("acme"))
    put(services, "due", "The auk.", Scope("acme"), expires="2035-01-01", owner="ann")
    learn(services)
    keep_beside(services)
    evaluate(services)


def learn(services: System) -> None:
    fact = ("shop", "fixer", "deploy", "The gannet lags", "OOM", ["Restart the gannet"], "kafka")
    capture = services.learning.capture(SHOP)
    capture_failure_solution(capture, *fact, success_verified=True)
    services.learning.checkpoints(SHOP).process_checkpoint("shop", "manual")
    capture_warning(capture, "shop", "developer", "Restart the database", "made_worse", "INC-7")
    services.learning.checkpoints(SHOP).process_checkpoint("shop", "manual")
    capture_failure_solution(capture, "shop", "fixer", "deploy", "The auk fell", "", ["Lift the auk"], "kafka")
    answer = services.questions.for_reader(SHOP).search("restart the heron", QueryConfig(min_confidence=0.0))
    receipt, found = (answer.receipt or {})["receiptId"], answer.results[0].document_id
    outcomes = services.learning.outcomes(SHOP)
    outcomes.record(receipt, found, "resolved", incident="INC-8")
    outcomes.record(receipt, found, "made_worse", step="Restart the heron", occurrence="again")
    page = DocumentKey(Scope(), "documents/runbooks/procedures/restart.md")
    learnt = RecordedOutcome("o" * 32, OutcomeResult.RESOLVED, found, 1, receipt, "2026-01-01T00:00:00Z")
    services.learning.learnt.enter("client:acme/project:shop", learnt, page, "the bird is stuck")


def keep_beside(services: System) -> None:
    services.questions.for_reader(SHOP).search("how do we brew espresso")
    services.graph.aliases.register(Scope("acme"), "service:payments", "service:pay", by="ann")
    services.graph.merging.merge(Scope("acme"), "service:store", "service:shop", by="ann")
    services.graph.aliases.state("0" * 32, Scope("acme"), [("service:till", "service:pay")])
    services.part(baselines).add([{"node": "web-1", "metric": "cpu", "value": 1.5}], scope=Scope("acme"))
    record = {"node": "web-1", "metric": "load", "time_window": "7d", "mean": 1, "stddev": 1, "samples": 3}
    services.part(baselines).put_record(record, scope=Scope("acme"))
    services.lifecycle.measure_usage()
    services.tables.table(USES).put(
        {"scopeKey": "client:acme", "documentKey": "0" * 32, "day": "2026-03-31", "expiresAt": 4_000_000_000}
    )
    holds = Holds(services.tables.table(LIFECYCLE), services.clock)
    holds.add(Hold("matter 7", "ann", within="client:acme"))
    holds.lift(holds.add(Hold("matter 8", "ann")).id, "bob")
    sources, knowledge = services.connectors.sources, services.installation.knowledge
    feed = {"kind": "rss", "category": "web/blogs", "options": {"url": "https://status.example/feed.xml"}}
    sources.register(definition_of("status", feed, knowledge))
    sources.claim("status", seconds=60)
    items = SourceItems(services.tables.table(SOURCES), "status")
    items.put_many([SourceItem("a", "d1", "documents/web/blogs/a.md", "r1"), SourceItem("b", "d2", "", "r1")])
    items.put("https://status.example/feed.xml", {"etag": '"1"'})
    services.part(capability.StreamIngestion).repository.put(
        stream_of("alarms", {"source": QUEUE, "category": "operations/alerts"}, knowledge)
    )


def of_installation(services: System) -> Context:
    return Context(services, Caller(Identity(), owns_system=True))


def evaluate(services: System) -> None:
    """Own questions, one of them a canary, a run of them, and a contradiction that was marked as none."""
    context = of_installation(services)
    page = next(one for one in services.corpus.catalog.in_category("runbooks/procedures") if one.scope == Scope())
    add_own_question(context, AddOwnQuestion("restart the heron", (page.document_id,), canary=True))
    add_own_question(context, AddOwnQuestion("how do we brew espresso"))
    run_evaluation(context, RunEvaluation())
    run_canaries(context, RunCanaries())
    marks_of(services).put(Scope("acme"), CONTRADICTION, by="ann", because="two sites")


def marks_of(services: System) -> Dismissals:
    return Dismissals.of(services.tables, services.corpus.clients, services.clock)


def evaluated(services: System) -> dict[str, Any]:
    """All that readers get of evaluations and of marks."""
    kept, marks = Evaluations.of(services), marks_of(services)
    return {
        "questions": list(kept.questions()),
        "runs": [(run, list(kept.replies(run))) for run in kept.runs()],
        "canaries": list_canaries(of_installation(services), ListCanaries()),
        "marks": marks.ids(["client:acme"]),
    }


def work_of(services: System) -> dict[str, Callable[[], object]]:
    """Things that people and agents do with a system, by name."""
    reader = services.corpus.projects.reader(SHOP)
    learning, records = services.learning, services.records
    return {
        "clients": lambda: list(services.corpus.clients.all()),
        "projects": lambda: list(services.corpus.projects.projects("acme")),
        "search": lambda: [
            services.questions.for_reader(one).search(text, QueryConfig(min_confidence=0.0))
            for one in READERS
            for text in ("restart the heron", "gannet", "espresso")
        ],
        "reconcile": lambda: services.part(assurance).reconciler(thorough=True).run(repair=True),
        "gaps": lambda: [list(records.gaps.gaps(scope)) for scope in reader.visible],
        "audit": lambda: list(records.audit.records()),
        "patterns": lambda: [list(learning.patterns.patterns(scope)) for scope in reader.visible],
        "checkpoint": lambda: learning.checkpoints(SHOP).process_checkpoint("shop", "manual"),
        "warnings": lambda: [learning.warnings.tried(scope) for scope in reader.visible],
        "outcomes": lambda: [list(learning.outcome_store.heads([one], ["0" * 32])) for one in reader.visible],
        "series": lambda: services.part(baselines).series(reader),
        "baseline": lambda: services.part(baselines).get(reader, "web-1", "cpu", "7d"),
        "sources": lambda: [
            services.connectors.sources.state(one.source_id) for one in services.connectors.sources.all()
        ],
        "streams": services.part(capability.StreamIngestion).repository.all,
        "evaluations": lambda: evaluated(services),
        "holds": lambda: (services.lifecycle.holds.in_force(), services.lifecycle.holds.lifted()),
        "merges": lambda: services.graph.merging.merges(Scope("acme")),
        "usage": lambda: list(services.lifecycle.usage.of_month("2026-01")),
        "pruning": lambda: services.lifecycle.pruning().prune_old_knowledge(),
    }


# -- mutations


ODD: tuple[Any, ...] = (
    None, "", "x", 0, -1, 7, 1e308, 2**70, True, [], {}, [[]], ["x"], {"a": 1}, float("nan"), "client:other",
    "client:*", "../../etc/passwd", "\x1b[2J\x00", "9999-99-99", "2026-01-01T00:00:00Z", "y" * 20_000,
    {"$bytes": "AA=="}, {"$bytes": "?"}, "\ud800", "#clients", "global", "current", "0" * 32,
)  # fmt: skip

Lines = list[dict[str, Any]]


def mutated(entries: Entries, seed: int) -> tuple[Entries, str]:
    """The entries with one to three changes, resealed, and a description of them."""
    chance = random.Random(seed)
    found, names = dict(entries), []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        name = chance.choice([one for one in found if one.endswith(".jsonl") and one != "entries.jsonl" and found[one]])
        lines = [json.loads(line) for line in found[name].splitlines()]
        change = chance.choice(CHANGES)
        done = change(lines, chance)
        found[name] = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        names.append(f"{name}: {done}")
    if chance.random() < 0.1:
        names.append(_changed_pack(found, chance))
    return resealed(found), "; ".join(names)


def _place(line: dict[str, Any], chance: random.Random) -> tuple[dict[str, Any], str]:
    """A mapping in a line, the line itself mostly, and the name of one of its fields."""
    place = line
    while inner := [value for value in place.values() if isinstance(value, dict) and value]:
        if chance.random() < 0.4:
            break
        place = chance.choice(inner)
    return place, chance.choice(list(place) or [""])


def _drop(lines: Lines, chance: random.Random) -> str:
    place, name = _place(chance.choice(lines), chance)
    place.pop(name, None)
    return f"without {name}"


def _set(lines: Lines, chance: random.Random) -> str:
    place, name = _place(chance.choice(lines), chance)
    place[name] = chance.choice(ODD)
    return f"{name} = {str(place[name])[:40]!r}"


def _twice(lines: Lines, chance: random.Random) -> str:
    lines.append(copy.deepcopy(chance.choice(lines)))
    return "a line twice"


def _gone(lines: Lines, chance: random.Random) -> str:
    lines.pop(chance.randrange(len(lines)))
    return "a line gone"


def _moved(lines: Lines, chance: random.Random) -> str:
    """A line that belongs to another client."""
    at = chance.randrange(len(lines))
    lines[at] = json.loads(re.sub(r"\bacme\b", "other", json.dumps(lines[at])))
    return f"line {at} of another client"


def _swapped(lines: Lines, chance: random.Random) -> str:
    (one, name), (other, _) = _place(chance.choice(lines), chance), _place(chance.choice(lines), chance)
    one[name] = other.get(name, chance.choice(ODD))
    return f"{name} of another line"


def _retyped(lines: Lines, chance: random.Random) -> str:
    """A number as a string, a string as a list."""
    place, name = _place(chance.choice(lines), chance)
    value = place.get(name)
    place[name] = str(value) if isinstance(value, int | float) else [value]
    return f"{name} of another type"


CHANGES: tuple[Callable[[Lines, random.Random], str], ...] = (
    _drop, _drop, _set, _set, _set, _twice, _gone, _moved, _swapped, _retyped,
)  # fmt: skip


def _changed_pack(found: Entries, chance: random.Random) -> str:
    """Other bytes of one object, with the right checksum in its line."""
    name = chance.choice(["documents.jsonl", "files.jsonl"])
    lines = [json.loads(line) for line in found[name].splitlines()]
    line = chance.choice(lines) if lines else {}
    blob = line.get("object", line) or {}
    if not isinstance(blob, dict) or not isinstance(blob.get("size"), int) or not isinstance(blob.get("start"), int):
        return "no object"
    pack = bytearray(found[str(blob["pack"])]) if str(blob.get("pack")) in found else bytearray()
    start, size = blob["start"], blob["size"]
    for at in range(min(start, len(pack)), min(start + size, len(pack)), 7):
        pack[at] = chance.randrange(256)
    if pack:
        found[str(blob["pack"])] = bytes(pack)
        blob["sha256"] = hashlib.sha256(pack[start : start + size]).hexdigest()
    found[name] = b"".join(json.dumps(each).encode() + b"\n" for each in lines)
    return f"other bytes of an object in {name}"
