"""Outcomes are recorded for documents of an answer, under short names too, and refused for all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

import pytest

from opx.domain.documents import DocumentKey
from opx.domain.outcomes import Counted, Counts, Tally
from opx.domain.record import replace
from opx.domain.scopes import Identity, Scope
from opx.errors import ClientRemovedError, DocumentNotFoundError, InvalidInputError, ReceiptNotFoundError
from opx.ingestion.corpus.catalog import Catalog
from opx.operations.system import System
from tests.support.agent_calls import DISK, id_of
from tests.support.outcome_support import (
    ANYTHING,
    CORPUS,
    DEPOT,
    LONG,
    SHOP,
    STRANGER,
    ask,
    ranks,
    record,
    take_out,
)


class TestRecording:
    def test_it_counts_for_the_whole_client(self, services: System) -> None:
        report = record(services, "resolved", 2)
        assert (report.counted, report.standing.tally.now) == (Counted.NEW, Counts(resolved=2))
        found = services.learning.outcomes(DEPOT).standing(id_of(services, DISK))
        assert (found.tally.now.resolved, found.explanation) == (2, "2 of 2 resolved, too few to count")
        assert (
            services.learning.outcomes(STRANGER).standing(id_of(services, DISK)).explanation
            == "no outcome was recorded"
        )

    def test_of_an_answer_and_a_document_there_is_one_outcome(self, services: System) -> None:
        receipt, document = ask(services).receipt_id, id_of(services, DISK)
        outcomes = services.learning.outcomes(SHOP)
        found = [outcomes.record(receipt, document, result).counted for result in ("resolved", "resolved", "no_effect")]
        assert found == [Counted.NEW, Counted.KNOWN, Counted.CORRECTED]
        assert outcomes.record(receipt, document, "resolved", occurrence="next day").counted is Counted.NEW
        assert outcomes.standing(document).tally.now == Counts(resolved=1, no_effect=1)

    def test_all_fields_are_stored_without_secrets(self, services: System) -> None:
        record(
            services,
            "resolved",
            step="du -sh\x00 /var",
            incident="INC-7",
            note="it was postgres://app:Xk29fLq8Zp31@db/x\n",
        )
        [outcome] = services.learning.outcomes(DEPOT).standing(id_of(services, DISK)).latest
        assert (outcome.step, outcome.incident, outcome.principal) == ("du -sh\ufffd /var", "INC-7", "ann")
        assert "Xk29fLq8Zp31" not in outcome.note

    @pytest.mark.parametrize("name", ["Repair", "repair", "AFTERWARDS"])
    def test_a_section_is_meant_by_its_headings(self, services: System, name: str) -> None:
        report = record(services, "no_effect", key=LONG, section=name)
        assert report.section in ("Repair", "Repair > Afterwards")
        assert list(report.standing.sections) == [report.section]

    def test_a_document_is_meant_by_the_beginning_of_its_id(self, services: System) -> None:
        document = id_of(services, DISK)
        assert (
            services.learning.outcomes(SHOP)
            .record(ask(services).receipt_id, document[:12].upper(), "resolved")
            .document_id
            == document
        )

    def test_a_version_that_was_replaced_meanwhile_counts_as_an_earlier_one(self, services: System) -> None:
        key = "documents/runbooks/changing.md"
        services.store.put(key, b"# Changing volume\n\nGrow the volume at night.")
        list(services.manager.work())
        receipt, old = ask(services, "changing volume").receipt_id, id_of(services, key)
        services.store.put(key, b"# Changing volume\n\nGrow the volume at noon.")
        list(services.manager.work())
        services.learning.outcomes(SHOP).record(receipt, old, "resolved")
        assert services.learning.outcomes(SHOP).standing(id_of(services, key)).tally == Tally(
            Counts(), Counts(resolved=1)
        )
        [shown] = [one for one in ask(services, "changing volume").results if one.document_id == id_of(services, key)]
        assert "1 of earlier versions" in shown.metadata["outcome"]["text"]
        take_out(services, key)

    def test_the_same_text_under_another_key_is_the_same_document(self, services: System) -> None:
        copy = "clients/acme/documents/runbooks/disk-copy.md"
        services.store.put(copy, CORPUS[DISK].encode())
        list(services.manager.work())
        assert id_of(services, copy) == id_of(services, DISK)
        record(services, "resolved", 5)
        keys = [DocumentKey(Scope(), DISK).id, DocumentKey(Scope("acme"), "documents/runbooks/disk-copy.md").id]
        heads = services.learning.outcome_store.heads(["client:acme"], keys)
        assert [head.tally.now.resolved for _, _, head in heads] == [5, 5]
        take_out(services, copy)


class TestShortNames:
    def test_a_receipt_is_meant_by_its_beginning_and_counted_as_the_whole(self, services: System) -> None:
        receipt, outcomes = ask(services).receipt_id, services.learning.outcomes(SHOP)
        first = outcomes.record(receipt, id_of(services, DISK), "resolved")
        again = outcomes.record(receipt[:8].upper(), id_of(services, DISK), "resolved")
        assert (again.counted, again.outcome_id) == (Counted.KNOWN, first.outcome_id)

    def test_fewer_than_six_digits_are_too_few(self, services: System) -> None:
        receipt = ask(services).receipt_id
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(SHOP).record(receipt[:5], "", "resolved")

    def test_a_beginning_of_several_receipts_is_refused_with_a_list(
        self, services: System, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ids = iter(["abcdef" + "0" * 26, "abcdef" + "1" * 26])
        monkeypatch.setattr(services.records.audit, "new_id", lambda: next(ids))
        receipts = [ask(services).receipt_id, ask(services).receipt_id]
        with pytest.raises(InvalidInputError, match="abcdef is the beginning of 2 receipts") as caught:
            services.learning.outcomes(SHOP).record("abcdef", "", "resolved")
        assert all(receipt in str(caught.value) for receipt in receipts)

    def test_last_is_the_newest_answer_to_the_same_principal(self, services: System) -> None:
        mine = ask(services, "volume full")
        ask(services, identity=replace(SHOP, principal="bob"))
        report = services.learning.outcomes(SHOP).record("last", "", "resolved")
        assert report.document_id == ranks(mine)[0]
        again = services.learning.outcomes(SHOP).record(mine.receipt_id, ranks(mine)[0], "resolved")
        assert again.counted is Counted.KNOWN

    @pytest.mark.parametrize(
        "identity", [Identity("acme", "new", "ann"), Identity("new", "shop", "ann"), Identity("acme")]
    )
    @pytest.mark.parametrize("digits", [0, 6, 12, 32])
    def test_neither_names_an_answer_of_another_scope(self, services: System, identity: Identity, digits: int) -> None:
        receipt = ask(services).receipt_id
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(identity).record(receipt[:digits] or "last", "", "resolved")

    def test_a_document_is_meant_by_its_rank_and_the_first_by_nothing(self, services: System) -> None:
        answer, outcomes = ask(services, "volume full"), services.learning.outcomes(SHOP)
        shown = list(dict.fromkeys(ranks(answer)))
        for name, meant in (("", shown[0]), ("1", shown[0]), ("2", shown[1])):
            assert outcomes.record(answer.receipt_id, name, "resolved").document_id == meant


class TestRefusals:
    @pytest.mark.parametrize("receipt", ["", "nonsense", "#scopes client:acme/project:shop", "r" * 64])
    def test_unknown_receipt(self, services: System, receipt: str) -> None:
        with pytest.raises(ReceiptNotFoundError, match="opx audit"):
            services.learning.outcomes(SHOP).record(receipt, id_of(services, DISK), "resolved")

    @pytest.mark.parametrize("identity", [DEPOT, STRANGER, Identity("acme")])
    def test_receipt_of_another_caller_is_refused_like_an_unknown_one(
        self, services: System, identity: Identity
    ) -> None:
        with pytest.raises(ReceiptNotFoundError):
            services.learning.outcomes(identity).record(ask(services).receipt_id, id_of(services, DISK), "resolved")

    @pytest.mark.parametrize("rank", ["0", "99"])
    def test_rank_that_the_answer_does_not_have(self, services: System, rank: str) -> None:
        answer = ask(services)
        first = answer.results[0].title
        expected = f"the answer has 4 documents, and none at rank {rank}:\n  1  {first}\n  2  "
        with pytest.raises(InvalidInputError, match=re.escape(expected)):
            services.learning.outcomes(SHOP).record(answer.receipt_id, rank, "resolved")

    @pytest.mark.parametrize("document", ["abc", "0" * 32, "%"])
    def test_document_that_was_not_returned(self, services: System, document: str) -> None:
        answer = ask(services)
        with pytest.raises(InvalidInputError, match=f"it has.*{answer.results[0].document_id[:12]}"):
            services.learning.outcomes(SHOP).record(answer.receipt_id, document, "resolved")

    def test_document_of_an_answer_without_any(self, services: System) -> None:
        answer = services.questions.for_reader(SHOP).search("disk", replace(ANYTHING, categories=("security/cve",)))
        with pytest.raises(InvalidInputError, match="had no results"):
            services.learning.outcomes(SHOP).record(answer.receipt_id, id_of(services, DISK), "resolved")

    def test_section_that_the_document_does_not_have(self, services: System) -> None:
        with pytest.raises(InvalidInputError, match=r"no section 'Rollback'; there are: .*Repair"):
            record(services, "resolved", key=LONG, section="Rollback")

    @pytest.mark.parametrize(
        ("named", "message"),
        [
            ({"result": "worse"}, "unknown result 'worse'; allowed: resolved, no_effect, made_worse"),
            ({"step": "x" * 1001}, "step may have 1,000 characters, not 1,001"),
            ({"incident": 7}, "incident must be a string"),
        ],
    )
    def test_invalid_fields(self, services: System, named: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            services.learning.outcomes(SHOP).record("r", "d", **{"result": "resolved", **named})

    def test_document_that_is_gone(self, services: System) -> None:
        key = "clients/acme/projects/shop/documents/runbooks/gone.md"
        services.store.put(key, b"# Gone volume\n\nGrow it.")
        list(services.manager.work())
        receipt, document = ask(services, "gone volume").receipt_id, id_of(services, key)
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, catalog=cast("Catalog", NoDocuments()))
        with pytest.raises(DocumentNotFoundError, match="gone"):
            outcomes.record(receipt, document, "resolved")
        take_out(services, key)

    def test_client_that_was_removed_meanwhile(self, services: System) -> None:
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, admits=lambda _: False)
        with pytest.raises(ClientRemovedError, match="acme"):
            outcomes.record(ask(services).receipt_id, id_of(services, DISK), "resolved")

    def test_without_an_audit_log(self, services: System) -> None:
        outcomes = services.learning.outcomes(SHOP)
        outcomes._sight = replace(outcomes._sight, audited=None)
        with pytest.raises(InvalidInputError, match="OPX_AUDIT_DAYS"):
            outcomes.record("r", id_of(services, DISK), "resolved")


class NoDocuments:
    def find(self, _: str) -> Iterator[Any]:
        return iter(())
