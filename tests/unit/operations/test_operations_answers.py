"""Answers as they were given, by their receipt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.errors import ReceiptNotFoundError
from opx.operations.context import Caller, Context
from opx.operations.questions import GetAnswer, PassageState, get_answer
from opx.operations.system import System
from tests.support.agent_calls import CORPUS, DISK, DISK_TITLE, a_system, id_of

ACME, RIVAL, NOBODY = Identity("acme", principal="ann"), Identity("rival"), Identity()
OF_ACME = "clients/acme/documents/runbooks/vault.md"
VAULT = "# Open the acme vault\n\nThree key holders unseal the vault."


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with a_system(tmp_path / "home", {**CORPUS, OF_ACME: VAULT}) as found:
        yield found


def ask(system: System, question: str = DISK_TITLE, identity: Identity = ACME) -> str:
    return system.questions.for_reader(identity).search(question, QueryConfig(min_confidence=0)).receipt_id


def context(system: System, identity: Identity = ACME, *scopes: str) -> Context:
    return Context(system, Caller(identity, token_scopes=frozenset(scopes or {"opx/read"})))


def test_the_passages_are_those_of_then_after_the_document_changed(system: System) -> None:
    receipt = ask(system)
    before = get_answer(context(system), GetAnswer(receipt_id=receipt)).passages
    system.store.put(DISK, f"# {DISK_TITLE}\n\nCall the storage team.".encode())
    list(system.manager.work())
    after = get_answer(context(system), GetAnswer(receipt_id=receipt)).passages
    found = {one.document_id: one.state for one in after}
    assert [one.content for one in after] == [one.content for one in before]
    assert "Delete rotated logs" in "".join(one.content for one in after)
    assert PassageState.REPLACED in found.values()
    assert {one.state for one in before} == {PassageState.CURRENT}


def test_a_given_question_is_compared_with_the_recorded_hash(system: System) -> None:
    receipt = ask(system)
    for question, expected in ((DISK_TITLE.upper(), True), ("another one", False), ("", None)):
        answer = get_answer(context(system), GetAnswer(receipt_id=receipt, question=question))
        assert answer.is_question is expected


def test_another_scope_learns_nothing(system: System) -> None:
    receipt = ask(system, "unseal the vault")
    for other in (context(system, RIVAL), context(system, NOBODY), context(system, RIVAL, "opx/admin")):
        with pytest.raises(ReceiptNotFoundError):
            get_answer(other, GetAnswer(receipt_id=receipt))


def test_an_operator_sees_the_record_and_only_what_is_everybodys(system: System) -> None:
    receipt = ask(system, "unseal the vault")
    vault = id_of(system, OF_ACME)
    answer = get_answer(context(system, NOBODY, "opx/admin"), GetAnswer(receipt_id=receipt))
    shown = {one.document_id: one for one in answer.passages}
    assert (answer.record.who, shown[vault].state, shown[vault].content) == ("client:acme", PassageState.GONE, "")
    assert VAULT[2:20] not in str(answer)


def test_an_unknown_receipt_is_an_error(system: System) -> None:
    for receipt in ("0" * 32, "#scopes client:acme"):
        with pytest.raises(ReceiptNotFoundError):
            get_answer(context(system, NOBODY, "opx/admin"), GetAnswer(receipt_id=receipt))
