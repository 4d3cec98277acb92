"""Texts of Jira as Markdown: Atlassian documents, and wiki markup."""

from __future__ import annotations

from typing import Any

import pytest

from opx.formats.data.replies import OddRecordError
from opx_connectors.atlassian.adf import adf_markdown
from opx_connectors.atlassian.jira_documents import wiki_markdown


def node(kind: str, *content: Any, **attrs: Any) -> dict[str, Any]:
    return {"type": kind, "content": list(content), "attrs": attrs}


def text(words: str, *marks: str, href: str = "") -> dict[str, Any]:
    given: list[dict[str, Any]] = [{"type": mark} for mark in marks]
    return {
        "type": "text",
        "text": words,
        "marks": given + ([{"type": "link", "attrs": {"href": href}}] if href else []),
    }


def paragraph(words: str) -> dict[str, Any]:
    return node("paragraph", text(words))


def markdown(*content: Any) -> str:
    return adf_markdown({"type": "doc", "version": 1, "content": list(content)})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (node("heading", text("Why"), level=2), "## Why"),
        (node("paragraph", text("so "), text(" bold ", "strong"), text("!")), "so  **bold** !"),
        (node("paragraph", text("x", "em"), text("y", "strike"), text("z`", "code")), "*x*~~y~~`` z` ``"),
        (node("paragraph", text("docs", href="https://x.example/")), "docs (https://x.example/)"),
        (node("paragraph", text("docs", href="javascript:alert(1)")), "docs"),
        (node("codeBlock", text("a\n```\nb"), language="sh"), "````sh\na\n```\nb\n````"),
        (node("bulletList", node("listItem", paragraph("a"), node("bulletList", node("listItem", paragraph("b")))))
        , "- a\n  - b"),
        (node("bulletList", node("listItem", paragraph("a"), node("codeBlock", text("x\n\ny")))),
         "- a\n  \n  ```\n  x\n  \n  y\n  ```"),
        (node("orderedList", node("listItem", paragraph("a")), node("listItem", paragraph("b")), order=3), "3. a\n4. b"),
        (node("taskList", node("taskItem", text("a"), state="DONE"), node("taskItem", text("b"), state="TODO")),
         "- [x] a\n- [ ] b"),
        (node("panel", paragraph("hot"), panelType="warning"), "> **Warning**\n> \n> hot"),
        (node("blockquote", paragraph("a"), paragraph("b")), "> a\n> \n> b"),
        (node("expand", paragraph("in"), title="More"), "**More**\n\nin"),
        (node("table", node("tableRow", node("tableHeader", paragraph("A|B")), node("tableHeader", paragraph("C"))),
              node("tableRow", node("tableCell", paragraph("1"), paragraph("2")))),
         "| A\\|B | C |\n| --- | --- |\n| 1 2 |  |"),
        (node("paragraph", node("mention", text="@Ann"), node("emoji", shortName=":fire:"), node("status", text="DONE"),
              node("date", timestamp="1704153600000"), node("inlineCard", url="https://x.example/1")),
         "@Ann:fire:DONE2024-01-02https://x.example/1"),
        (node("mediaSingle", node("media", alt="a chart")), "[image: a chart]"),
        (node("newThing", paragraph("still read")), "still read"),
        (node("rule"), "---"),
    ],
)  # fmt: skip
def test_nodes_become_markdown(given: dict[str, Any], expected: str) -> None:
    assert markdown(given) == expected


def test_blocks_have_a_blank_line_between_them() -> None:
    assert markdown(paragraph("a"), text("loose"), paragraph("b")) == "a\n\nloose\n\nb"


@pytest.mark.parametrize("kind", ["bulletList", "blockquote", "paragraph"])
def test_nesting_without_end_is_refused(kind: str) -> None:
    deep = paragraph("x")
    for _ in range(300):
        deep = node(kind, deep)
    with pytest.raises(OddRecordError, match="nested"):
        markdown(deep)


@pytest.mark.parametrize("given", [None, "text", {"type": "paragraph"}, [], {"type": "doc", "content": "words"}])
def test_an_invalid_document_is_refused(given: Any) -> None:
    with pytest.raises(OddRecordError, match="doc"):
        adf_markdown(given)


@pytest.mark.parametrize("given", [{"type": 5}, {"content": "x"}, {"type": "text", "text": 4, "marks": [1]}, 7, None])
def test_nodes_of_another_kind_are_no_failure(given: Any) -> None:
    assert markdown(given, paragraph("rest")).endswith("rest")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("h2. Cause", "## Cause"),
        ("*bold* and -gone- but not a-b-c or 2*3*4", "**bold** and ~~gone~~ but not a-b-c or 2*3*4"),
        ("{{kubectl get}}", "`kubectl get`"),
        (
            "[docs|https://x.example/a] [https://x.example/b] [~ann]",
            "docs (https://x.example/a) https://x.example/b @ann",
        ),
        ("# one\n## two\n- dash", "1. one\n  1. two\n- dash"),
        ("||A||B||\n|1|[x|https://x.example]|", "| A | B |\n| --- | --- |\n| 1 | x (https://x.example) |"),
        ("{noformat}*as it is*{noformat}", "```\n*as it is*\n```"),
        ("{panel:title=Note me|bgColor=red}in{panel}", "**Note me**in"),
        ("!shot.png|thumbnail!", "[image: shot.png]"),
        ("{color:red}hot{color}", "hot"),
        ("a\r\nb", "a\nb"),
    ],
)
def test_wiki_markup_becomes_markdown(given: str, expected: str) -> None:
    assert wiki_markdown(given).strip() == expected


def test_code_can_hold_fences() -> None:
    assert wiki_markdown("{code:sh}\n```\n{code}") == "````sh\n```\n````"


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "part", ["*a ", "[x|", "{code}", "{code:a}", "{panel:", "!a", "!a|", "{{a", "h1. ", "||", "-a ", "[~"]
)
def test_markup_that_never_closes_takes_no_time_that_grows_with_its_square(part: str) -> None:
    wiki_markdown(part * 20_000)
