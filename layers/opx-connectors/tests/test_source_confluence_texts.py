"""Pages of Confluence as Markdown."""

from __future__ import annotations

import contextlib

import pytest

from opx.formats.data.replies import OddRecordError
from opx_connectors.atlassian.storage_format import storage_markdown


def macro(name: str, body: str = "", **parameters: str) -> str:
    given = "".join(f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items())
    return f'<ac:structured-macro ac:name="{name}" ac:schema-version="1">{given}{body}</ac:structured-macro>'


def rich(body: str) -> str:
    return f"<ac:rich-text-body>{body}</ac:rich-text-body>"


def plain(body: str) -> str:
    return f"<ac:plain-text-body><![CDATA[{body}]]></ac:plain-text-body>"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("<h1>Restart</h1><p>Do&nbsp;<strong>this</strong></p>", "# Restart\n\nDo\u00a0**this**"),
        (macro("code", plain("if a > 3 && b:\n  x = '<b>'"), language="py", title="run.py"),
         "**run.py**\n\n```py\nif a > 3 && b:\n  x = '<b>'\n```"),
        (macro("code", plain("```")), "````\n```\n````"),
        (macro("warning", rich("<p>hot</p>"), title="Careful"), "> **Warning: Careful**\n>\n> hot"),
        (macro("info", rich("<ul><li>a<ol><li>b</li></ol></li></ul>")), "> **Info**\n>\n> - a\n>   1. b"),
        (macro("expand", rich("<p>in</p>"), title="More"), "**More**\n\nin"),
        (macro("toc") + "<p>x</p>" + macro("children", all="true"), "x"),
        (macro("details", rich(macro("note", rich(macro("status", title="OK"))))), "> **Note**\n>\n> OK"),
        ("<table><tbody><tr><th>A</th><th>B</th></tr><tr><td><p>1 | 2</p></td><td>x</td></tr></tbody></table>",
         "| A | B |\n| --- | --- |\n| 1 \\| 2 | x |"),
        ("<ac:link><ri:page ri:content-title='Other' /></ac:link>", "Other"),
        (("<ac:link><ri:page ri:content-title='Other' /><ac:plain-text-link-body><![CDATA[see & do]]>"
         "</ac:plain-text-link-body></ac:link>"), "see & do"),
        ("<ac:link><ri:user ri:account-id='5b1' /></ac:link>", "@5b1"),
        ("<ac:image><ri:attachment ri:filename='net.png' /></ac:image>", "[image: net.png]"),
        ("<a href='https://x.example/a'>docs</a> <a href='javascript:x'>no</a>", "docs (https://x.example/a) no"),
        (("<ac:task-list><ac:task><ac:task-id>7</ac:task-id><ac:task-status>complete</ac:task-status>"
         "<ac:task-body>a</ac:task-body></ac:task></ac:task-list>"), "- [x] a"),
        (("<ac:layout><ac:layout-section><ac:layout-cell><p>l</p></ac:layout-cell><ac:layout-cell><p>r</p>"
         "</ac:layout-cell></ac:layout-section></ac:layout>"), "l\n\nr"),
        ("<p>a <ac:inline-comment-marker ac:ref='1'>b</ac:inline-comment-marker></p>", "a b"),
        ("<p><time datetime='2024-01-02' /> <ac:emoticon ac:name='tick' ac:emoji-fallback='ok' /></p>", "2024-01-02 ok"),
        (("<ac:adf-extension><ac:adf-node>raw</ac:adf-node><ac:adf-fallback><p>shown</p></ac:adf-fallback>"
         "</ac:adf-extension>"), "shown"),
        (("<p>a</p><ac:structured-macro ac:name='include'><ac:parameter ac:name=''><ac:link>"
         "<ri:page ri:content-title='How to' /></ac:link></ac:parameter></ac:structured-macro><p>b</p>"),
         "a\n\nIncluded page: How to\n\nb"),
        (macro("excerpt-include"), "Included page: unknown"),
        ("<script>alert(1)</script>", ""),
        ("", ""),
    ],
)  # fmt: skip
def test_storage_format_becomes_markdown(given: str, expected: str) -> None:
    assert storage_markdown(given).markdown == expected


def test_issues_of_jira_macros_are_rendered() -> None:
    read = storage_markdown(macro("jira", server="J", key="OPS-12") + macro("jira", jqlQuery="project = X"))
    assert read.issues == ("OPS-12",)
    assert "OPS-12" in read.markdown
    assert "Jira issues: project = X" in read.markdown


@pytest.mark.parametrize("levels", [200, 5_000])
def test_nesting_without_end_is_refused(levels: int) -> None:
    with pytest.raises(OddRecordError, match="nested"):
        storage_markdown("<div>" * levels)


def test_a_cell_over_several_rows_stands_in_each_of_them() -> None:
    table = "<table><tr><th>A</th><th>B</th></tr><tr><td rowspan='2'>a|b</td><td>1</td></tr><tr><td>2</td></tr></table>"
    assert storage_markdown(table).markdown.endswith("| a\\|b | 1 |\n| a\\|b | 2 |")


def test_a_cell_of_a_million_columns_stays_a_cell() -> None:
    table = "<table><tr><th>A</th></tr><tr><td colspan='1000000'>x</td></tr></table>"
    assert len(storage_markdown(table).markdown) < 100


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["<![CDATA[", "<p>", "<!", "<ac:link", "<a ", "&amp", "|"])
def test_markup_that_never_closes_takes_no_time_that_grows_with_its_square(part: str) -> None:
    with contextlib.suppress(OddRecordError):
        storage_markdown(part * 20_000)
