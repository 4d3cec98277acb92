"""JSON records read through the mapping of their category."""

from __future__ import annotations

import json

import pytest

from opx.domain.knowledge import Category
from opx.errors import KnowledgeConfigError
from opx.runtime.knowledge_file import load_knowledge
from tests.support.parsing_support import a_category, parsed, refusal, text_of

SIMPLE = a_category(title="$.title", content="$.body")


def record(**fields: object) -> str:
    return json.dumps(fields)


def test_title_and_content_come_from_their_paths() -> None:
    source = parsed(record(title=" Disk full \nmore", body="Free some.\r\n"), "a.json", SIMPLE)
    assert (source.title, "".join(source.lines)) == ("Disk full", "Free some.\n")


def test_several_contents_are_paragraphs_under_their_names() -> None:
    category = a_category(title="$.title", content="$.problem | $.missing | $.fix.steps[*].value")
    data = record(title="T", problem="It broke.", fix={"steps": [{"value": "stop"}, {"value": "start"}]})
    assert text_of(data, "a.json", category) == "## Problem\n\nIt broke.\n\n## Steps\n\nstop\n\nstart\n"


def test_lists_and_objects_become_bullets() -> None:
    data = record(title="T", body={"hosts": ["a", "b"], "ok": True, "note": "two\nlines", "none": None})
    assert text_of(data, "a.json", SIMPLE) == "- hosts:\n  - a\n  - b\n- ok: true\n- note: two\n  lines\n- none: null\n"


def test_of_several_paths_to_one_value_the_first_that_is_found_counts() -> None:
    category = a_category(title="$.title | $.name", content="$.body", author="$.owner.login | $.by")
    source = parsed(record(title=None, name="N", body="x", by="Ana"), "a.json", category)
    assert (source.title, source.metadata) == ("N", {"author": "Ana"})


def test_tags_are_collected_from_all_paths() -> None:
    category = a_category(title="$.title", content="$.body", tags="$.labels[*].name | $.tags")
    data = record(title="T", body="x", labels=[{"name": "bug"}, {"name": "ui"}], tags=["a", "b"])
    assert parsed(data, "a.json", category).metadata == {"tags": ["bug", "ui", "a", "b"]}


def test_a_number_is_a_title() -> None:
    assert parsed(record(title=404, body="x"), "a.json", SIMPLE).title == "404"


def test_half_characters_and_nul_are_replaced() -> None:
    assert text_of('{"title": "T", "body": "a\\ud800b\\u0000c"}', "a.json", SIMPLE) == "a\ufffdb\ufffdc\n"


def test_a_record_in_utf16_is_read() -> None:
    assert text_of(record(title="T", body="x").encode("utf-16"), "a.json", SIMPLE) == "x\n"


# -- the shipped mappings --------------------------------------------------------------------------------------------


def shipped(path: str) -> Category:
    return load_knowledge().category(path)


def test_a_vulnerability_of_nvd_is_read() -> None:
    cve = {
        "id": "CVE-2030-0001",
        "published": "2030-01-02T03:04:05.678",
        "lastModified": "2030-02-02T03:04:05.678",
        "descriptions": [{"lang": "es", "value": "Un fallo."}, {"lang": "en", "value": "A flaw."}],
        "metrics": {"cvssMetricV31": [{"cvssData": {"baseSeverity": "HIGH"}}]},
        "weaknesses": [{"description": [{"lang": "en", "value": "CWE-79"}]}],
        "configurations": [{"nodes": [{"cpeMatch": [{"criteria": "cpe:2.3:a:x:y"}, {"criteria": "cpe:2.3:a:x:y"}]}]}],
        "references": [{"url": "https://example.org/advisory"}],
    }
    source = parsed(record(cve=cve), "a.json", shipped("security/cve"))
    assert source.title == "CVE-2030-0001: A flaw."
    assert "".join(source.lines) == "## Descriptions\n\nA flaw.\n\n## Criteria\n\ncpe:2.3:a:x:y\n"
    assert source.metadata == {
        "tags": ["CWE-79"],
        "severity": "HIGH",
        "created": "2030-01-02T03:04:05.678",
        "updated": "2030-02-02T03:04:05.678",
        "source_uri": "https://example.org/advisory",
    }


def titled(description: object) -> str | None:
    cve = {"id": "CVE-2030-0001", "descriptions": [{"lang": "en", "value": description}, {"lang": "es", "value": "x"}]}
    return parsed(record(cve=cve), "a.json", shipped("security/cve")).title


def test_the_title_of_a_vulnerability_has_as_many_words_as_fit() -> None:
    assert titled("Overflow in v1.2 " * 50) == "CVE-2030-0001: " + ("Overflow in v1.2 " * 6).strip() + " Overflow"


@pytest.mark.parametrize("description", [5, ["A flaw."], {"a": 1}, True])
def test_a_vulnerability_with_an_odd_description_has_its_id_as_title(description: object) -> None:
    assert titled(description) == "CVE-2030-0001"


@pytest.mark.parametrize(("body", "content"), [("It broke.", "It broke.\n"), (None, "Why?\n"), ("", "Why?\n")])
def test_an_issue_without_a_text_is_its_title(body: str | None, content: str) -> None:
    assert text_of(record(title="Why?", body=body), "a.json", shipped("web/github_issues")) == content


@pytest.mark.parametrize("bundled", [False, True])
def test_a_technique_of_attack_is_read(bundled: bool) -> None:
    technique = {
        "name": "Sudo abuse",
        "description": "Text.",
        "kill_chain_phases": [{"phase_name": "persistence"}],
        "x_mitre_platforms": ["Linux"],
        "external_references": [
            {"source_name": "blog", "url": "https://example.org/b"},
            {"source_name": "mitre-attack", "external_id": "T0001", "url": "https://example.org/T0001"},
        ],
    }
    data = record(objects=[technique]) if bundled else record(**technique)
    source = parsed(data, "a.json", shipped("security/mitre"))
    assert source.title == "Sudo abuse"
    assert source.metadata["tags"] == ["persistence", "Linux", "T0001"]
    assert source.metadata["source_uri"] == "https://example.org/T0001"


def test_a_question_with_answers_is_read() -> None:
    question = {
        "title": "Why?",
        "body_markdown": "I wonder.",
        "tags": ["linux"],
        "creation_date": 1_700_000_000,
        "answers": [{"body_markdown": "Because."}, {"body_markdown": "Or not."}],
        "link": "https://example.org/q/1",
        "owner": {"display_name": "Ana"},
    }
    source = parsed(record(**question), "a.json", shipped("web/stack_overflow"))
    assert "I wonder." in (text := "".join(source.lines))
    assert "Because.\n\nOr not." in text
    assert source.metadata["author"] == "Ana"


def test_an_alert_manager_notification_is_read() -> None:
    notification = {
        "commonLabels": {"alertname": "DiskFull", "severity": "critical", "service": "orders"},
        "commonAnnotations": {"summary": "Disk is full", "description": "95 % used."},
        "alerts": [{"startsAt": "2030-01-01T00:00:00Z"}],
    }
    source = parsed(record(**notification), "a.json", shipped("operations/alerts"))
    assert source.title == "Disk is full"
    assert source.metadata["services"] == ["orders"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("operations/incidents", {"title": "T", "content": "words", "metadata": {"region": "eu"}}),
        ("operations/changes", {"title": "T", "description": "words", "affected_systems": ["orders"]}),
        ("operations/alerts", {"title": "T", "message": "words"}),
        ("evidence/agent_runs", {"task": "T", "conclusions": ["words"], "observations": ["seen"]}),
        ("evidence/remediation", {"problem": "T", "solution": "words"}),
        ("learning/patterns", {"failure_description": "T", "solution_steps": ["words"]}),
        ("web/search", {"title": "T", "description": "words", "url": "https://example.org"}),
        ("web/github_issues", {"title": "T", "body": "words", "labels": []}),
    ],
)
def test_records_of_each_category_are_read(path: str, fields: dict[str, object]) -> None:
    source = parsed(record(**fields), "a.json", shipped(path))
    assert source.title == "T"
    assert "words" in "".join(source.lines)


# -- refusals --------------------------------------------------------------------------------------------------------


def test_a_category_without_mapping_is_refused() -> None:
    assert "category notes has no `json` paths" in refusal(record(title="T"), "a.json")


def test_invalid_json_is_refused_with_line_and_column() -> None:
    assert "line 2, column 10" in refusal('{"title": "T",\n "body": }', "a.json", SIMPLE)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    assert "not usable JSON" in refusal('{"title": ' + "9" * 5000 + "}", "a.json", SIMPLE)


@pytest.mark.parametrize("depth", [201, 100_000])
def test_deep_nesting_is_refused(depth: int) -> None:
    assert "nested deeper than 200" in refusal('{"title":' + "[" * depth + "]" * depth + "}", "a.json", SIMPLE)


def test_nesting_up_to_the_limit_is_read() -> None:
    data = '{"title": "T", "body":' + "[" * 198 + '"deep"' + "]" * 198 + "}"
    assert "deep" in text_of(data, "a.json", SIMPLE)


def test_deep_small_values_do_not_grow_by_their_depth() -> None:
    data = '{"title": "T", "body":' + "[" * 150 + "1" + ",1" * 10_000 + "]" * 150 + "}"
    assert len(text_of(data, "a.json", SIMPLE)) < 20 * len(data)


def test_an_array_of_records_is_refused() -> None:
    message = refusal("[{}]", "a.json", SIMPLE)
    assert "array of records" in message
    assert "one a line into a .jsonl file" in message


def a_bundle(*objects: dict[str, object]) -> str:
    return record(type="bundle", id="bundle--1", objects=list(objects))


def an_object(name: str, **fields: object) -> dict[str, object]:
    return {"type": "attack-pattern", "id": f"attack-pattern--{name}", "name": name, "description": "Text.", **fields}


@pytest.mark.parametrize("second", [an_object("b"), {"type": "relationship"}])
def test_a_bundle_of_several_objects_is_refused(second: dict[str, object]) -> None:
    message = refusal(a_bundle(an_object("a"), second), "a.json", shipped("security/mitre"))
    assert "2 objects in one file, at $.objects" in message
    assert "--kind attack" in message


@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize(("mark", "state"), [("revoked", "revoked"), ("x_mitre_deprecated", "deprecated")])
def test_an_object_that_its_authors_withdrew_is_refused(mark: str, state: str, bundled: bool) -> None:
    found = an_object("a", **{mark: True})
    data = a_bundle(found) if bundled else record(**found)
    assert f"{state} attack-pattern--a" in refusal(data, "a.json", shipped("security/mitre"))


def test_an_own_record_may_be_about_something_revoked() -> None:
    assert parsed(record(title="T", body="x", revoked=True), "a.json", SIMPLE).title == "T"


@pytest.mark.parametrize(
    ("path", "fields", "where"),
    [
        ("security/cve", {"format": "NVD_CVE", "vulnerabilities": [{"cve": {"id": "CVE-1"}}]}, "`vulnerabilities`"),
        ("web/search", {"type": "search", "web": {"results": [{"title": "T"}]}}, "`web.results`"),
        ("web/github_issues", {"action": "opened", "issue": {"title": "T", "body": "x"}}, "`issue`"),
        ("web/search", {"videos": {"results": [{"title": "T"}]}, "web": {"results": [{"title": "T"}]}},
         "`videos.results` and `web.results`"),
    ],
)  # fmt: skip
def test_records_below_the_top_are_pointed_at(path: str, fields: dict[str, object], where: str) -> None:
    message = refusal(record(**fields), "a.json", shipped(path))
    assert f" seem to be in {where}: put " in message or f" seems to be in {where}: put " in message
    assert "add it" not in message


def test_a_record_of_another_category_is_refused_with_the_remedy() -> None:
    message = refusal(record(issues=[{"fields": {"summary": "T"}}]), "a.json", shipped("operations/incidents"))
    assert "choose a category whose `json` paths fit" in message


def test_a_path_that_builds_a_string_is_not_shown() -> None:
    assert "no title at $.cve.id; " in refusal(record(x=1), "a.json", shipped("security/cve"))


@pytest.mark.parametrize("data", ["1", '"text"', "null", "true"])
def test_a_bare_value_is_refused(data: str) -> None:
    assert "a JSON object is needed" in refusal(data, "a.json", SIMPLE)


@pytest.mark.parametrize("title", [None, "", "  ", [], ["a"], {"a": 1}, True])
def test_a_missing_title_is_refused_with_its_path(title: object) -> None:
    assert "no title at $.title" in refusal(record(title=title, body="x"), "a.json", SIMPLE)


@pytest.mark.parametrize("body", [None, "", " \n", [], {}])
def test_missing_content_is_refused_with_its_path(body: object) -> None:
    problem = refusal(record(title="T", body=body), "a.json", SIMPLE)
    assert "no content at $.body, nor at description, summary, message, body; add it to the record" in problem


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"message": "M", "summary": "S", "description": "D"}, "D\n"),
        ({"message": "M", "summary": "S", "description": " "}, "S\n"),
        ({"message": "M", "body": None}, "M\n"),
        ({"body": "B", "message": "M"}, "B\n"),
    ],
)
def test_content_that_is_not_at_its_path_is_found_in_a_known_field(fields: dict[str, object], content: str) -> None:
    """Streams and webhooks carry records that were not written for their category; the category's own path comes first."""
    assert text_of(record(title="T", **fields), "a.json", SIMPLE) == content


def test_a_wrong_path_in_the_mapping_is_an_error_of_the_configuration() -> None:
    with pytest.raises(KnowledgeConfigError, match=r"notes\.json\.content: .*not a JSONPath"):
        parsed(record(title="T"), "a.json", a_category(title="$.title", content="$.body["))
