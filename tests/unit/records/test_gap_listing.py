"""Gaps in lists and reports: their order, their owners, and what is shown of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opx.domain.record import replace
from opx.errors import InvalidInputError, KnowledgeConfigError
from opx.records.gaps.listing import NOBODY, GapView, Owners, headline, listed, read_owners, report_lines
from opx.records.gaps.model import Gap, GapStatus, Nearest
from opx.runtime.knowledge_file import load_knowledge
from tests.support.gap_support import ESPRESSO, MISSING, a_gap, a_gap_of

NOBODYS = Owners({}, {})


def views(*gaps: Gap, owners: Owners = NOBODYS, **wanted: Any) -> list[GapView]:
    return listed(gaps, owners, **wanted)


class TestOwners:
    OWNERS = Owners({"Payments": "team-pay"}, {"runbooks": "sre", "runbooks/architecture": "architects"})

    @pytest.mark.parametrize(
        ("gap", "owner"),
        [
            (a_gap(named=("payments",)), "team-pay"),
            (a_gap(nearest=Nearest(category="runbooks/procedures", author="ann", services=("payments",))), "team-pay"),
            (a_gap(nearest=Nearest(category="runbooks/architecture", author="ann")), "architects"),
            (a_gap(nearest=Nearest(category="runbooks/procedures", author="ann")), "sre"),
            (a_gap(nearest=Nearest(category="postmortems", author="ann")), "ann"),
            (a_gap(categories=("runbooks/procedures",)), "sre"),
            (a_gap(), ""),
        ],
    )
    def test_service_comes_before_category_before_author(self, gap: Gap, owner: str) -> None:
        assert self.OWNERS.of(gap) == owner

    def test_known_services_are_found_in_questions_as_whole_words(self) -> None:
        assert self.OWNERS.services_in("restart PAYMENTS.") == ("payments",)
        assert self.OWNERS.services_in("payments-api and prepayments") == ()

    def test_section_is_read(self, tmp_path: Path) -> None:
        owners = read_owners(load_knowledge(), a_file(tmp_path, "owners: {payments: pay, runbooks/procedures: sre}"))
        assert owners.names == ("pay", "sre")

    def test_without_the_section_nobody_owns_anything(self) -> None:
        assert read_owners(load_knowledge()).names == ()

    @pytest.mark.parametrize(
        "section", ["owners: [a]", "owners: {a: 1}", "owners: {no/category: x}", "owners: {a: ''}"]
    )
    def test_mistakes_are_reported_with_file_and_line(self, tmp_path: Path, section: str) -> None:
        with pytest.raises(KnowledgeConfigError, match=r"knowledge\.yaml:\d+: "):
            read_owners(load_knowledge(), a_file(tmp_path, section))


def a_file(folder: Path, section: str) -> Path:
    path = folder / "knowledge.yaml"
    path.write_text(f"default_category: x\n{section}\n")
    return path


class TestListing:
    def test_frequent_and_nearly_answered_gaps_come_first(self) -> None:
        chatter, wanted = (
            a_gap("tell me a joke", count=3),
            a_gap("alpha", count=2, nearest=Nearest("d", confidence=0.6)),
        )
        assert [view.question for view in views(chatter, wanted)] == ["alpha", "tell me a joke"]

    def test_settled_ones_are_shown_on_request_and_last(self) -> None:
        closed = replace(a_gap("alpha", count=9), status=GapStatus.CLOSED)
        assert [view.question for view in views(closed, a_gap("beta"))] == ["beta"]
        assert [view.question for view in views(closed, a_gap("beta"), settled=True)] == ["beta", "alpha"]

    def test_they_are_filtered_by_service_and_owner(self) -> None:
        one, two = a_gap("alpha", named=("payments",)), a_gap("beta")
        assert [view.question for view in views(one, two, service="Payments")] == ["alpha"]
        owned = views(one, two, owners=TestOwners.OWNERS, owner="TEAM-pay")
        assert [view.owner for view in owned] == ["team-pay"]
        assert [view.question for view in views(one, two, owners=TestOwners.OWNERS, owner=NOBODY)] == ["beta"]

    def test_an_assigned_owner_comes_before_that_of_the_service(self) -> None:
        gap = a_gap("alpha", named=("payments",), owner="sre")
        assert [view.owner for view in views(gap, owners=TestOwners.OWNERS, owner="SRE")] == ["sre"]
        assert views(gap, owners=TestOwners.OWNERS, owner="team-pay") == []

    def test_view_can_be_read_back_and_has_no_callers_hashes(self) -> None:
        (view,) = views(a_gap(callers=("abc123",)))
        assert GapView.from_json(json.loads(json.dumps(view.to_json()))) == view
        assert "abc123" not in json.dumps(view.to_json())
        with pytest.raises(InvalidInputError):
            GapView.from_json({"gapId": "x"})

    def test_a_view_names_the_absent_identifier(self) -> None:
        (view,) = views(a_gap_of(MISSING))
        assert GapView.from_json(json.loads(json.dumps(view.to_json()))).absent == MISSING
        assert headline(view) == MISSING.text
        assert headline(views(a_gap())[0]) == ESPRESSO

    def test_report_is_by_owner_and_quotes_nothing_as_markdown(self) -> None:
        found = views(a_gap("alpha <b> # [x](y)", named=("payments",)), a_gap("beta"), owners=TestOwners.OWNERS)
        report = "\n".join(report_lines(found))
        assert report.index("## nobody") < report.index("## team-pay")
        assert r"alpha \<b\> \# \[x\](y)" in report
        absent = "\n".join(report_lines(views(a_gap_of(MISSING, "it_fires", nearest=Nearest("d", "Disk")))))
        assert "- **no page for alert QueueHighCritical; nearest sibling: QueueHighWarning**" in absent
        assert r"  - asked: it\_fires" in absent
        assert "Disk" not in absent
        assert "There are none." in "\n".join(report_lines([]))
