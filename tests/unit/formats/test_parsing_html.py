"""HTML pages, also those of Confluence's export."""

from __future__ import annotations

import pytest

from opx.formats.markup import html
from opx.formats.markup.html import read_html
from tests.support.parsing_support import parsed, refusal, text_of


def page(body: str, head: str = "") -> str:
    return f"<!DOCTYPE html><html><head><title>T</title>{head}</head><body>{body}</body></html>"


def test_the_title_element_is_the_title() -> None:
    assert parsed(page("<h1>Other</h1><p>x</p>"), "a.html").title == "T"


def test_the_first_heading_is_the_title_where_none_is_declared() -> None:
    assert parsed("<h1>Disk\n <b>full</b></h1><p>x</p>", "a.html").title == "Disk full"


def test_a_page_without_any_title_has_none() -> None:
    assert parsed("<p>x</p>", "a.html").title is None


def test_description_author_and_language_are_metadata() -> None:
    html = (
        '<html lang="pt-BR"><head><meta name="Description" content="About it"><meta name="author" content="Ana"></head>'
        "<p>x</p></html>"
    )
    assert parsed(html, "a.html").metadata == {"description": "About it", "author": "Ana", "language": "pt-BR"}


def test_a_language_that_is_no_code_is_left_out() -> None:
    assert parsed('<html lang="x-default"><p>x</p></html>', "a.html").metadata == {}


SHOWN = {
    "headings and nested lists are kept": (
        "<h2>Steps</h2><ol start=3><li>One<ul><li>Deep</li></ul></li><li>Two</li></ol><p>End</p>",
        "## Steps\n\n3. One\n   - Deep\n4. Two\n\nEnd\n",
    ),
    "tables are kept": (
        "<table><tr><th>Name</th><th>Port</th></tr><tr><td>db</td><td>5432</td></tr></table>",
        "| Name | Port |\n| --- | --- |\n| db | 5432 |\n",
    ),
    "a fence is longer than those in the code": ("<pre>```\ncode\n```</pre>", "````\n```\ncode\n```\n````\n"),
    "links keep text and address": (
        '<p>See <a href="https://example.org/x">the guide</a>, <a href="#top">top</a>.</p>',
        "See the guide (https://example.org/x), top.\n",
    ),
    "identifiers are not escaped": ("<p>max_connections * 2</p>", "max_connections * 2\n"),
    "an article keeps the heading of its header": (
        "<article><header><h1>Title</h1><p>by someone</p></header><p>text</p></article>",
        "# Title\n\ntext\n",
    ),
    "an empty main part is not taken": ("<main></main><p>kept</p>", "kept\n"),
    "several articles are all taken": ("<article>one</article><article>two</article>", "one\n\ntwo\n"),
}


@pytest.mark.parametrize(("html", "expected"), SHOWN.values(), ids=SHOWN)
def test_body_becomes_markdown(html: str, expected: str) -> None:
    assert text_of(page(html), "a.html") == expected


@pytest.mark.parametrize(
    "html",
    [
        '<pre><code class="language-bash">df -h\n\n\n  ls</code></pre>',
        '<pre class="lang-bash">df -h\n\n\n  ls</pre>',
        '<div class="highlight-source-bash"><pre>df -h\n\n\n  ls</pre></div>',
    ],
)
def test_code_blocks_keep_language_and_layout(html: str) -> None:
    assert text_of(page(html), "a.html") == "```bash\ndf -h\n\n\n  ls\n```\n"


@pytest.mark.parametrize("tag", ["script", "style", "nav", "footer", "aside", "form", "noscript", "template", "svg"])
def test_scripts_navigation_and_other_non_content_elements_are_left_out(tag: str) -> None:
    assert text_of(page(f"<p>kept</p><div><{tag}>dropped</{tag}></div>"), "a.html") == "kept\n"


@pytest.mark.parametrize(
    "main",
    ["<main>kept</main>", "<div role=main>kept</div>", "<article>kept</article>", "<div id=content>kept</div>"],
)
def test_the_main_part_is_taken(main: str) -> None:
    assert text_of(page(f"<div>menu</div>{main}<div>legal</div>"), "a.html") == "kept\n"


def test_end_tags_may_be_left_out() -> None:
    items = "".join(f"<li>item {at}" for at in range(400))
    lines = text_of(page(f"<ul>{items}</ul><p>a<p>b"), "a.html").splitlines()
    assert (lines[0], lines[399], lines[-3:]) == ("- item 0", "- item 399", ["a", "", "b"])


def test_conditional_comments_and_declarations_are_not_text() -> None:
    assert (
        text_of("<?xml version='1.0'?><!DOCTYPE html><![if !IE]><p>kept</p><![endif]><!-- no -->", "a.html") == "kept\n"
    )


def test_text_without_any_tag_is_taken() -> None:
    assert text_of("https://example.org/a", "a.html") == "https://example.org/a\n"


def test_character_references_never_give_nul_or_half_characters() -> None:
    assert text_of("<p>a&#0;b&#xD800;c</p>", "a.html").isprintable() is False  # the final newline
    assert not {"\0", "\ud800"} & set(text_of("<p>a&#0;b&#xD800;c</p>", "a.html"))


def test_a_huge_column_span_is_ignored() -> None:
    assert len(text_of("<table><tr><td colspan=1000>x</table>", "a.html")) < 100


@pytest.mark.parametrize("unfinished", ["<!--", "<a ", "<a href='"])
def test_markup_that_nothing_closes_is_text(unfinished: str) -> None:
    assert text_of("<p>before</p>" + unfinished * 20_000, "a.html").startswith("before")


def test_a_page_without_text_is_refused() -> None:
    assert "no text of its own" in refusal(page("<div id=root></div><script>render()</script>"), "a.html")


def test_deep_nesting_is_refused() -> None:
    assert "nested deeper" in refusal("<div>" * 3000 + "x", "a.html")


def test_markup_that_the_parser_rejects_is_refused() -> None:
    assert "not readable as HTML" in refusal("<p>x</p>&#" + "9" * 5000 + ";", "a.html")


def test_html_in_an_unknown_encoding_is_refused() -> None:
    assert "not valid UTF-8 at byte 3" in refusal(b"<p>\xe9</p>", "a.html")


def rows_of(table: str) -> list[str]:
    lines = text_of(page(f"<table>{table}</table>"), "a.html").splitlines()
    return [line for line in lines if "---" not in line]


def test_a_cell_over_several_rows_stands_in_each_of_them() -> None:
    table = (
        "<tr><th>Host</th><th>Port</th><th>Use</th></tr>"
        "<tr><td rowspan=2><b>db1</b></td><td>5432</td><td rowspan=2>SQL</td></tr><tr><td>5433</td></tr>"
        "<tr><td>db2</td><td>1</td><td>x</td></tr>"
    )
    assert rows_of(table) == [
        "| Host | Port | Use |",
        "| **db1** | 5432 | SQL |",
        "| db1 | 5433 | SQL |",
        "| db2 | 1 | x |",
    ]


def test_cells_over_rows_and_columns_keep_the_others_in_their_place() -> None:
    table = (
        "<thead><tr><th rowspan=2>Host</th><th colspan=2>Ports</th></tr><tr><th>in</th><th>out</th></tr></thead>"
        "<tbody><tr><td rowspan=0>db1</td><td colspan=2 rowspan=2>none</td></tr><tr></tr><tr><td>1</td><td>2</td></tr>"
        "</tbody>"
    )
    assert rows_of(table)[1:] == ["| Host | in | out |", "| db1 | none | |", "| db1 | none | |", "| db1 | 1 | 2 |"]


def test_a_cell_does_not_go_on_beyond_its_group_of_rows() -> None:
    table = "<tbody><tr><td rowspan=9>a</td><td>b</td></tr></tbody><tbody><tr><td>c</td><td>d</td></tr></tbody>"
    assert rows_of(table)[-1] == "| c | d |"


def test_cells_over_rows_do_not_make_a_page_grow_without_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html, "MAX_COPIES", 1_000)
    wide = "<tr>" + "<td rowspan=65534>word</td>" * 100 + "</tr>"
    assert text_of(page(f"<table>{wide}{'<tr><td>x</td></tr>' * 100}</table>"), "a.html").count("word") == 100 + 900


@pytest.mark.parametrize(
    ("charset", "text"),
    [("iso-8859-1", "Störung – Gerät"), ("Shift_JIS", "障害①"), ("iso-2022-jp", "障害"), ("utf-16", "Störung")],
)
def test_the_charset_that_a_page_declares_is_heeded(charset: str, text: str) -> None:
    encoding = {"iso-8859-1": "cp1252", "Shift_JIS": "cp932", "utf-16": "utf-8"}.get(charset, charset)
    html = page(f"<p>{text}</p>\r\n", f'<meta http-equiv="content-type" content="text/html; charset={charset}">')
    assert text_of(html.encode(encoding), "a.html") == text + "\n"


def test_utf_8_is_read_as_such_whatever_the_page_declares() -> None:
    assert text_of(page("<p>Störung</p>", '<meta charset="windows-1252">'), "a.html") == "Störung\n"


@pytest.mark.parametrize("charset", ["utf-8", "no-such", "base64", "euc-jp"])
def test_bytes_that_are_not_in_the_declared_charset_are_refused(charset: str) -> None:
    html = page("<p>Störung</p>", f'<meta charset="{charset}">').encode("latin-1")
    assert "save it as UTF-8" in refusal(html, "a.html")


def test_a_charset_declared_far_down_is_not_looked_for() -> None:
    html = page("<p>Störung</p>", f'<!--{"x" * 1024}--><meta charset="iso-8859-1">').encode("latin-1")
    assert "not valid UTF-8" in refusal(html, "a.html")


EXPORT = """\
<html><head><title>OPS : Fail over RDS</title></head><body class="theme-default aui-theme-default">
<div id="page"><div id="main" class="aui-page-panel">
<div id="main-header"><div id="breadcrumb-section"><ol><li><a href="index.html">Operations</a></li></ol></div>
<h1 id="title-heading" class="pagetitle"><span id="title-text"> OPS : Fail over RDS </span></h1></div>
<div id="content" class="view">
<div class="page-metadata"> Created by <span class='author'> Ann Lee</span>{created}, last modified by
<span class='editor'> Bob Roe</span> on Mar 01, 2023 </div>
<div id="main-content" class="wiki-content group"><h2>Steps</h2><p>Run the failover.</p><p>Attachments stay.</p></div>
<div class="pageSection group"><div class="pageSectionHeader"><h2 id="attachments">Attachments:</h2></div>
<div class="greybox"><a href="x.png">diagram.png</a> (image/png)</div></div>
</div></div>
<div id="footer"><section class="footer-body"><p>Document generated by Confluence on Nov 01, 2023 10:00</p></section></div>
</div></body></html>
"""


def test_furniture_is_left_out() -> None:
    page = read_html(EXPORT.format(created=""), "x.html")
    assert page.text == "## Steps\n\nRun the failover.\n\nAttachments stay.\n"


def test_title_author_and_dates_are_the_pages() -> None:
    page = read_html(EXPORT.format(created=" on Jan 15, 2020"), "x.html")
    assert page.title == "Fail over RDS"
    assert page.metadata == {"author": "Ann Lee", "created": "2020-01-15", "last_updated": "2023-03-01"}


def test_one_date_is_that_of_the_last_change() -> None:
    assert read_html(EXPORT.format(created=""), "x.html").metadata == {
        "author": "Ann Lee",
        "last_updated": "2023-03-01",
    }


def test_other_pages_keep_their_parts() -> None:
    page = read_html(
        "<html><body><div class='page-metadata'>Kept on Mar 01, 2023</div><p>Text</p></body></html>", "x.html"
    )
    assert "Kept on" in page.text
    assert page.metadata == {}
