from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli_support import Opx
from tests.support.remote_support import KINDS, opx_at

ANY = ("--min-confidence", "0")
CPU = """---
services: [checkout]
updated: 2025-03-14
---
# High CPU

The load average climbs and requests are slow.
"""


@pytest.fixture(scope="module", params=KINDS)
def opx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opx]:
    """A few documents; only read."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("search")
        with opx_at(request.param, folder, patch) as opx:
            ingest_files(opx)
            yield opx


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Opx:
    opx = Opx(tmp_path_factory.mktemp("clients"))
    ingest_files(opx)
    opx("--client", "acme", "ingest", opx.write("acme/secret.md", "# Acme\n\nThe frobnicator needs grease.\n"))
    return opx


def ingest_files(opx: Opx) -> None:
    opx.write("runbooks/disk.md", "# Disk full\n\n## Symptoms\n\nThe alert `NodeDiskFull` fires and **writes** fail.\n")
    opx.write("runbooks/cpu.md", CPU)
    opx.write("postmortems/dns.md", "# DNS outage\n\nThe resolver dropped packets for an hour.\n")
    assert opx("ingest", opx.folder / "docs").exit_code == 0
    opx("ingest", opx.write("forum.md", "# Forum\n\nHow zebras got their stripes.\n"), "--category", "web/forums")


def test_a_document_has_title_section_facts_text_and_source(opx: Opx) -> None:
    result = opx("search", "NodeDiskFull", *ANY)
    head, body, *_ = result.stdout.split("\n\n")
    assert head.splitlines()[0] == "1. Disk full > Symptoms"
    assert re.fullmatch(
        r"   runbooks/procedures, sure \((0\.9[5-9]|1\.00)\), updated \d{4}-\d\d-\d\d \(0 days ago\)",
        head.splitlines()[1],
    )
    assert "The alert `NodeDiskFull` fires and writes fail." in (body, *result.stdout.split("\n\n"))
    assert re.search(r"^   \S*docs/runbooks/disk\.md(:1)?  \[[0-9a-f]{8}\]$", result.stdout, re.MULTILINE)
    assert result.exit_code == 0


def test_a_passage_of_many_short_sections_is_named_by_the_first_and_the_last(tmp_path: Path) -> None:
    opx, sections = Opx(tmp_path), ("Impact", "Trigger", "Detection", "Repair", "Lessons")
    text = "# Quokkas\n\n" + "".join(f"## {name}\n\nThe {name.lower()} of quokkas.\n\n" for name in sections)
    opx("ingest", opx.write("postmortems/quokkas.md", text))
    first = opx("search", "quokkas", *ANY).stdout.splitlines()[0]
    assert first == "1. Quokkas > Impact / … / Lessons"


def test_the_source_is_a_line_of_the_local_file(folder: Opx) -> None:
    lines = folder("search", "load average", *ANY, "--limit", "1").stdout.splitlines()
    source = next(line for line in lines if "cpu.md" in line)
    assert re.search(r"docs/runbooks/cpu\.md:5  \[", source)


def test_words_need_no_quotes_and_options_may_stand_among_them(opx: Opx) -> None:
    answer = json.loads(opx("search", "resolver", *ANY, "dropped", "--json", "packets").stdout)
    assert answer["query"] == "resolver dropped packets"


def test_output_without_a_terminal_has_no_escapes(opx: Opx) -> None:
    assert "\x1b" not in opx("search", "load disk", *ANY, "--explain").stdout


def test_all_of_a_document_is_shown_on_request(opx: Opx) -> None:
    few = opx("search", "NodeDiskFull", *ANY, "--limit", "1", "--budget", "10")
    assert "Found, and larger than the budget:\n1. Disk full > Symptoms (" in few.stdout
    for expand in ("section", "document"):
        shown = opx("search", "NodeDiskFull", *ANY, "--limit", "1", "--budget", "10", "--expand", expand).stdout
        assert "The alert `NodeDiskFull` fires and writes fail." in shown


def test_the_answer_ends_with_how_to_record_its_outcome(opx: Opx) -> None:
    last = opx("search", "NodeDiskFull", *ANY).stdout.splitlines()[-1]
    command = re.search(r"opx (outcome record [0-9a-f]{8} resolved)$", last)
    assert command
    recorded = opx(*command[1].split())
    assert recorded.stdout.startswith("new: Disk full resolved\n")


def test_nothing_good_enough_exits_with_one_shows_what_is_unconfirmed_and_names_the_closest(opx: Opx) -> None:
    result = opx("search", "disk", "--min-confidence", "1")
    assert result.exit_code == 1
    assert result.stdout.startswith("1. Disk full > Symptoms\n")
    lines = result.stdout.splitlines()
    at = lines.index("No good answer: nothing reaches confidence 1.00.")
    assert re.fullmatch(r"Closest: Disk full > Symptoms \(.*\); see it with --min-confidence 0\.\d", lines[at + 1])


def test_every_document_has_its_band(opx: Opx) -> None:
    shown = opx("search", "load average of requests", "--limit", "3").stdout
    confidences = [(band, float(value)) for band, value in re.findall(r", (sure|likely|weak) \((\d\.\d\d)\)", shown)]
    assert confidences
    assert confidences[0][0] == "sure"
    assert all(band == "weak" for band, value in confidences if value < 0.49)


def test_without_a_candidate_nothing_near_is_reported(opx: Opx) -> None:
    result = opx("search", "?!")
    assert result.exit_code == 1
    assert result.stdout == "No answer: nothing here is near this question.\n"
    answer = json.loads(opx("search", "?!", "--json").stdout)
    assert (answer["results"], answer.get("unconfirmed"), answer.get("nearest")) == ([], None, None)


def test_an_alert_without_a_page_is_reported_first(opx: Opx) -> None:
    shown = opx("search", "alert NodeDiskGone").stdout.splitlines()
    assert shown[:2] == ["No page for alert NodeDiskGone; nearest sibling: NodeDiskFull (Disk full).", ""]
    assert "No page" not in opx("search", "alert NodeDiskFull").stdout


def test_the_suggested_confidence_shows_the_closest(opx: Opx) -> None:
    advice = opx("search", "disk", "--min-confidence", "1").stdout.split()[-1]
    assert opx("search", "disk", "--min-confidence", advice).exit_code == 0


def test_json_is_all_that_stdout_gets(opx: Opx) -> None:
    result = opx("search", "resolver packets", *ANY, "--json", "--explain")
    answer = json.loads(result.stdout)
    assert answer["results"][0]["metadata"]["title"] == "DNS outage"
    assert set(answer) >= {"query", "results", "partial", "notes", "timingsMs"}


def test_json_without_results_exits_with_one(opx: Opx) -> None:
    result = opx("search", "disk", "--min-confidence", "1", "--json")
    assert (result.exit_code, json.loads(result.stdout)["results"]) == (1, [])


def test_explain_shows_the_ranks_and_scores_of_each_hit(opx: Opx) -> None:
    result = opx("search", "load average", *ANY, "--explain", "--limit", "1")
    assert "found by words at rank 1 and by meaning at rank 1" in result.stdout
    for part in ("fused", "confidence", "trust", "final", "judged: estimated"):
        assert f"\n   {part}" in result.stdout


def test_explain_shows_the_stages_in_order_with_their_times(opx: Opx) -> None:
    last = opx("search", "load average", *ANY, "--explain", "--limit", "1", "--expand", "section").stdout.splitlines()[
        -1
    ]
    assert re.sub(r"\d+\.\d ms", "T", last) == "stages: embed T, search T, lexical T, vector T, judge T, expand T"


def test_a_dash_reads_the_question_from_standard_input(opx: Opx) -> None:
    result = opx("search", "-", *ANY, "--limit", "1", stdin="load average\n")
    assert result.stdout.startswith("1. High CPU")


@pytest.mark.parametrize("query", ["", "   ", "\n"])
def test_an_empty_question_is_wrong_usage(opx: Opx, query: str) -> None:
    result = opx("search", query)
    assert result.exit_code == 2
    assert "the question is empty" in result.stderr


def test_punctuation_has_no_good_answer(opx: Opx) -> None:
    result = opx("search", "?!… --")
    assert result.exit_code == 1
    assert result.stdout == "No answer: nothing here is near this question.\n"


def test_a_very_long_question_is_cut_with_a_note(opx: Opx) -> None:
    result = opx("search", "load disk " * 8000, *ANY, "--limit", "1")
    assert result.exit_code == 0
    assert "only the first 10,000 were searched" in result.stderr


@pytest.mark.parametrize("query", ["\udcff\udc80", "load\udcff average", "\U0001f4a5", "a\x07b"])
def test_odd_characters_are_no_error(opx: Opx, query: str) -> None:
    assert opx("search", query).exit_code in (0, 1)


def test_a_zero_byte_on_standard_input_is_no_error(opx: Opx) -> None:
    assert opx("search", "-", *ANY, "--limit", "1", stdin="load\0average").stdout.startswith("1. High CPU")


def test_a_limit_of_zero_is_wrong_usage(opx: Opx) -> None:
    assert opx("search", "disk", "--limit", "0").exit_code == 2


def test_a_huge_limit_is_lowered_with_a_note(opx: Opx) -> None:
    result = opx("search", "disk", *ANY, "--limit", "10000")
    assert result.exit_code == 0
    assert "at most 100 results" in result.stderr


@pytest.mark.parametrize(
    "option", [("--tier", "gossip"), ("--mode", "slow"), ("--fusion", "cold"), ("--min-confidence", "1.5")]
)
def test_an_unknown_choice_is_wrong_usage(opx: Opx, option: tuple[str, str]) -> None:
    result = opx("search", "disk", *option)
    assert result.exit_code == 2
    assert option[0] in result.stderr


def test_an_unknown_category_lists_those_that_exist(opx: Opx) -> None:
    result = opx("search", "disk", "--category", "gossip")
    assert result.exit_code == 2
    assert "allowed: " in result.stderr


def test_category_and_fusion_and_mode_are_passed_on(opx: Opx) -> None:
    options = ("--category", "postmortem", "--fusion", "rrf", "--mode", "fast", "--language", "en", *ANY, "--json")
    found = json.loads(opx("search", "resolver load disk", *options).stdout)["results"]
    assert [hit["category"] for hit in found] == ["postmortems"]
    assert found[0]["scores"]["fused"] == pytest.approx(2 / 61, abs=1e-6)


def test_the_internet_is_searched_only_on_request(opx: Opx) -> None:
    assert "Forum" not in opx("search", "zebra stripes", *ANY).stdout
    for option in (("--include-internet",), ("--tier", "internet")):
        assert "Forum" in opx("search", "zebra stripes", *ANY, *option).stdout


def test_the_internet_tier_alone_finds_nothing_internal(opx: Opx) -> None:
    assert "runbooks/" not in opx("search", "disk", "--tier", "internet", *ANY).stdout


def test_only_the_client_finds_its_documents(folder: Opx) -> None:
    found = folder("--client", "acme", "search", "frobnicator", *ANY).stdout
    hidden = folder("search", "frobnicator", *ANY).stdout
    assert "Acme" in found
    assert "Acme" not in hidden


def test_a_document_of_another_client_can_not_be_named(folder: Opx) -> None:
    secret = json.loads(folder("--client", "acme", "search", "frobnicator", *ANY, "--json").stdout)["results"][0]
    named = secret["metadata"]["documentId"]
    result, unknown = (folder("search", "frobnicator", *ANY, "--document", one) for one in (named, "f" * 32))
    assert result.exit_code == unknown.exit_code == 2
    assert result.stderr == unknown.stderr.replace("f" * 32, named)


def test_without_knowledge_it_prints_a_remedy_and_makes_no_folder(tmp_path: Path) -> None:
    nothing = Opx(tmp_path)
    result = nothing("search", "disk")
    assert result.exit_code == 2
    assert "run `opx ingest PATH...` first" in result.stderr
    assert not nothing.home.exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("slow load", "--service", "checkout"),
        ("slow load", "--after", "2025-03", "--before", "2025-03-15"),
        ("slow load service:checkout before:2026",),
        ('"requests are slow"',),
        ("load title:cpu",),
        ("load packets disk -resolver -alert -zebras",),
    ],
)
def test_only_what_the_question_and_its_options_allow_is_found(opx: Opx, arguments: tuple[str, ...]) -> None:
    answer = json.loads(opx("search", *arguments, *ANY, "--json").stdout)
    assert [result["metadata"]["title"] for result in answer["results"]] == ["High CPU"]


def test_plain_question_is_searched_as_words(opx: Opx) -> None:
    found = json.loads(opx("search", 'resolver -packets "dropped resolver"', *ANY, "--json", "--plain").stdout)
    assert found["results"][0]["metadata"]["title"] == "DNS outage"
    assert found["understood"]["plain"]


def test_an_invalid_operator_is_reported(opx: Opx) -> None:
    assert "searched as words: tier:gold (unknown tier" in opx("search", "disk tier:gold", *ANY).stderr


@pytest.mark.parametrize("option", ["--after", "--before"])
def test_date_that_is_none_is_refused(opx: Opx, option: str) -> None:
    result = opx("search", "disk", option, "yesterday")
    assert result.exit_code == 2
    assert f"{option} must be a day, month or year such as 2026-03-31, not 'yesterday'" in result.stderr
