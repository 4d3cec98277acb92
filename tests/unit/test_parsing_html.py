"""HTML pages."""

from __future__ import annotations

import pytest

from tests.unit.parsing_support import parsed, refusal, text_of


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


def test_headings_and_nested_lists_are_kept() -> None:
    html = page("<h2>Steps</h2><ol start=3><li>One<ul><li>Deep</li></ul></li><li>Two</li></ol><p>End</p>")
    assert text_of(html, "a.html") == "## Steps\n\n3. One\n   - Deep\n4. Two\n\nEnd\n"


def test_tables_are_kept() -> None:
    html = page("<table><tr><th>Name</th><th>Port</th></tr><tr><td>db</td><td>5432</td></tr></table>")
    assert text_of(html, "a.html") == "| Name | Port |\n| --- | --- |\n| db | 5432 |\n"


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


def test_a_fence_is_longer_than_those_in_the_code() -> None:
    assert text_of(page("<pre>```\ncode\n```</pre>"), "a.html") == "````\n```\ncode\n```\n````\n"


def test_links_keep_text_and_address() -> None:
    html = page('<p>See <a href="https://example.org/x">the guide</a>, <a href="#top">top</a>.</p>')
    assert text_of(html, "a.html") == "See the guide (https://example.org/x), top.\n"


def test_identifiers_are_not_escaped() -> None:
    assert text_of(page("<p>max_connections * 2</p>"), "a.html") == "max_connections * 2\n"


@pytest.mark.parametrize("tag", ["script", "style", "nav", "footer", "aside", "form", "noscript", "template", "svg"])
def test_what_is_not_content_is_left_out(tag: str) -> None:
    assert text_of(page(f"<p>kept</p><div><{tag}>dropped</{tag}></div>"), "a.html") == "kept\n"


def test_an_article_keeps_the_heading_of_its_header() -> None:
    html = page("<article><header><h1>Title</h1><p>by someone</p></header><p>text</p></article>")
    assert text_of(html, "a.html") == "# Title\n\ntext\n"


@pytest.mark.parametrize(
    "main",
    ["<main>kept</main>", "<div role=main>kept</div>", "<article>kept</article>", "<div id=content>kept</div>"],
)
def test_the_main_part_is_taken(main: str) -> None:
    assert text_of(page(f"<div>menu</div>{main}<div>legal</div>"), "a.html") == "kept\n"


def test_an_empty_main_part_is_not_taken() -> None:
    assert text_of(page("<main></main><p>kept</p>"), "a.html") == "kept\n"


def test_several_articles_are_all_taken() -> None:
    assert text_of(page("<article>one</article><article>two</article>"), "a.html") == "one\n\ntwo\n"


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
