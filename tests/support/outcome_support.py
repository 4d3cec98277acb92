"""Pages, queries about them, and outcomes that are recorded for the answers."""

from __future__ import annotations

from typing import Any

from opx.domain.outcomes import OutcomeReport
from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.learning.outcome_store import rows_of
from opx.operations.system import System
from opx.ports.tables import OUTCOMES
from tests.support.agent_calls import DISK, DISK_TITLE, id_of

ANYTHING = QueryConfig(min_confidence=0, categories=("runbooks/procedures",))
SHOP, DEPOT, STRANGER = Identity("acme", "shop", "ann"), Identity("acme", "depot"), Identity("other", "shop")
DNS = "documents/runbooks/dns.md"
LONG = "documents/runbooks/long.md"
STEP = "Delete the rotated logs of the application servers"
CORPUS = {
    DISK: f"# {DISK_TITLE}\n\nFind the biggest directories with du. Delete rotated logs. Grow the volume.",
    "documents/runbooks/disk2.md": "# Disk full on database hosts\n\nFind the biggest tables. Vacuum them. Grow the volume.",
    LONG: f"# Volumes\n\nAbout volumes.\n\n## Repair\n\n- {STEP}.\n- Grow the volume.\n\n### Afterwards\n\nWrite it down.",
    DNS: "# DNS lookups time out\n\nCheck the resolver and its forwarders.",
}


def ask(services: System, query: str = DISK_TITLE, identity: Identity = SHOP) -> Answer:
    return services.questions.for_reader(identity).search(query, ANYTHING)


def record(
    services: System, result: str, times: int = 1, key: str = DISK, identity: Identity = SHOP, **more: Any
) -> OutcomeReport:
    """Records an outcome of a returned document `times` times."""
    receipt, document = ask(services, "volume full", identity).receipt_id, id_of(services, key)
    outcomes = services.learning.outcomes(identity)
    return [outcomes.record(receipt, document, result, **more, occurrence=str(n)) for n in range(times)][-1]


def take_out(services: System, key: str) -> None:
    services.manager.delete_object(key)
    list(services.manager.work())


def ranks(answer: Answer) -> list[str]:
    """Ids of the documents of the results, the best first."""
    return [result.document_id for result in answer.results]


def forget_outcomes(system: System, *scopes: str) -> None:
    """Deletes the outcomes of scopes, and what a system remembers of them."""
    table = system.tables.table(OUTCOMES)
    for scope in scopes or ("global", "client:acme", "client:other"):
        for row in rows_of(table, scope):
            table.delete({"place": row["place"], "entry": row["entry"]})
    for name in ("known_outcomes", "outcome_store", "warnings", "learnt", "experience"):
        system.learning.__dict__.pop(name, None)
