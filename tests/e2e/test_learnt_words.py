"""From resolved incidents to a question in the words of those who report them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import boto3
import pytest

from opx.domain.outcomes import Counted
from opx.domain.queries import QueryConfig
from opx.domain.results import Answer
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.operations.context import Caller, Context
from opx.operations.outcomes import RecordOutcome, record_outcome
from opx.operations.search import Query, query
from tests.e2e.systems import SystemUnderTest, a_system

ANN, BOB, STRANGER = Identity("acme", "shop", "ann"), Identity("acme", "depot", "bob"), Identity("other", "shop", "eve")
PAGE = "Payment gateway 5xx"
CORPUS = {
    "documents/runbooks/gateway.md": f"# {PAGE}\n\nFail over to the second acquirer. Restart the payment proxy.",
    "documents/runbooks/disk.md": "# Disk full on Linux hosts\n\nFind the biggest directories. Grow the volume.",
    "documents/runbooks/dns.md": "# DNS lookups time out\n\nCheck the resolver and its forwarders.",
    "clients/acme/documents/operations/incidents/INC-17.md": "# INC-17: Kassenserver reagieren nicht\n\nSeen in two shops.",
}
REPORT = "Kasse 3 zeigt nur noch eine Sanduhr"
QUESTION = "kasse: sanduhr"


def filled(system: SystemUnderTest) -> SystemUnderTest:
    for key, text in CORPUS.items():
        system.put(key, text)
    system.work()
    return system


def client(system: SystemUnderTest, identity: Identity = ANN) -> LocalClient:
    return LocalClient(Context(system.services, Caller(identity)))


def ask(system: SystemUnderTest, question: str = QUESTION, identity: Identity = ANN, **config: Any) -> Answer:
    request = Query(query=question, config=QueryConfig(min_confidence=0, **config), receipt=True)
    return client(system, identity).call(query, request)


def record(
    system: SystemUnderTest, incident: str, note: str, result: str = "resolved", receipt: str = ""
) -> tuple[str, Counted]:
    """Records an outcome of the page that its own words find."""
    receipt_id = receipt or ask(system, "payment gateway 5xx").receipt_id
    outcome = RecordOutcome(receipt_id=receipt_id, document_id="1", result=result, incident=incident, note=note)  # type: ignore[arg-type]
    report = client(system).call(record_outcome, outcome)
    assert report.title == PAGE
    return receipt_id, report.counted


def learnt(answer: Answer) -> list[dict[str, str]]:
    return [change for change in answer.understood.get("reworded", ()) if change["why"] == "learnt"]


def shown(answer: Answer) -> list[tuple[str, float]]:
    return [(result.title, result.confidence) for result in answer.results]


def titles(answer: Answer) -> list[str]:
    return [result.title for result in answer.results]


def test_a_question_in_the_words_of_two_resolved_incidents_finds_their_page(either: SystemUnderTest) -> None:
    system = filled(either)
    before = ask(system)
    assert PAGE not in titles(before)[:1]
    record(system, "INC-12", REPORT)
    assert shown(ask(system)) == shown(before)
    receipt, _ = record(system, "INC-15", "Sanduhr an allen Kassen")
    answer = ask(system)
    assert titles(answer)[0] == PAGE
    assert learnt(answer) == [{"from": "kasse, sanduhr", "to": PAGE, "why": "learnt"}]
    assert f"searched also for: {PAGE} (kasse, sanduhr; learnt from INC-15, INC-12)" in answer.notes
    assert answer.results[0].confidence == pytest.approx(4 / 6, abs=1e-6)
    assert answer.receipt
    assert before.receipt
    assert answer.receipt["outcomes"] != before.receipt.get("outcomes", "")
    # of the same client also to another project, of another client to nobody
    assert titles(ask(system, identity=BOB))[0] == PAGE
    stranger = ask(system, identity=STRANGER)
    assert not learnt(stranger)
    assert PAGE not in titles(stranger)[:1]
    # corrected, it is taken back
    assert record(system, "INC-15", "", "no_effect", receipt)[1] is Counted.CORRECTED
    assert shown(ask(system)) == shown(before)


def test_the_text_of_an_incident_in_the_graph_is_part_of_its_report(either: SystemUnderTest) -> None:
    system = filled(either)
    record(system, "INC-17", "")
    record(system, "INC-18", "Kassenserver tot")
    answer = ask(system, "Kassenserver der Filiale Bonn spinnen schon wieder")
    assert PAGE in titles(answer)
    assert learnt(answer)[0]["from"] == "Kassenserver"


def test_switched_off_nothing_is_looked_up(tmp_path: Path, aws_session: boto3.Session) -> None:
    with a_system("embedded", tmp_path, aws_session, learned_words="off") as system:
        filled(system)
        before = ask(system)
        for number in range(3):
            record(system, f"INC-{number}", REPORT)
        assert shown(ask(system)) == shown(before)


def test_a_page_that_is_gone_is_no_more_looked_for(embedded: SystemUnderTest) -> None:
    system = filled(embedded)
    for number in range(2):
        record(system, f"INC-{number}", REPORT)
    assert learnt(ask(system))
    system.delete("documents/runbooks/gateway.md")
    system.work()
    assert not learnt(ask(system))
