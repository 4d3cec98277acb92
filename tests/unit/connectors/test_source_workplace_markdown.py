"""Markdown from outside within documents of ours, and relations at their end."""

from __future__ import annotations

import pytest

from opx.formats.markdown import block, facts, fenced, reference, relation, table


def test_a_fence_is_longer_than_any_in_the_code() -> None:
    assert fenced("a\n`````\n", "sh bad`") == "``````shbad\na\n`````\n``````"


def test_cells_do_not_end_early() -> None:
    assert table([["a|b", "c"], ["d\ne"]]) == "| a\\|b | c |\n| --- | --- |\n| d e |  |"


def test_a_table_without_cells_is_nothing() -> None:
    assert table([]) == table([[]]) == ""


def test_facts_without_a_value_are_left_out() -> None:
    assert facts([("A", "x\ny"), ("B", " ")]) == "- **A**: x y"


@pytest.mark.parametrize(
    ("name", "expected"), [("John  Smith", "user:John Smith"), ("a|b\n]c`", "user:a b c"), ("", ""), ("||", "")]
)
def test_names_in_references_have_no_structure(name: str, expected: str) -> None:
    assert reference("user", name) == expected


def test_relations_are_listed_once_and_only_if_they_are_whole() -> None:
    lines = [relation("jira:A-1", "is caused by", "jira:A-2"), relation("jira:A-1", "BLOCKS", ""), ""]
    assert block([*lines, *lines]) == "relationships:\n- jira:A-1|IS_CAUSED_BY|jira:A-2"
    assert relation("a:1", "!!", "b:2") == "a:1|RELATED_TO|b:2"
    assert block([]) == ""
