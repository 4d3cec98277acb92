"""The content of a page without its surroundings."""

from __future__ import annotations

import pytest

from opx.ports.sources import WebReply
from opx_connectors.web import pages
from opx_connectors.web.pages import iso_date, read_page
from opx_connectors.web.urls import crawl_scope, file_key, may_be_document, page_key, page_url

CONTENT = "<h1>Restart a node</h1><p>Drain it first.</p>"


def text_of(body: str, head: str = "") -> str:
    page = f"<html><head><title>Restart a node</title>{head}</head><body>{body}</body></html>"
    return read_page(WebReply("https://e.org/x", 200, {}, page.encode())).text


@pytest.mark.parametrize(
    "beside",
    [
        "<div class='sidebar'><a href=/1>Install</a></div>",
        "<div class='md-sidebar md-sidebar--primary'>Install</div>",
        "<div id='site-header'>Acme</div>",
        "<div class='navbar navbar-fixed'>Home</div>",
        "<ul class='breadcrumbs'><li>Docs</li></ul>",
        "<div role='navigation'>Menu</div>",
        "<div role='banner'>Acme</div>",
        "<div class='cookie-banner'>We use cookies</div>",
        "<div class='toc'>On this page</div>",
        "<div class='was-this-helpful'>Was this helpful?</div>",
        "<div class='page-feedback-widget'>Rate it</div>",
        "<div class='related-articles'>See more</div>",
        "<div class='pagination'>1 2 3</div>",
        "<div id='footer'>(c) Acme</div>",
        "<span class='mw-editsection'>[edit]</span>",
        "<button>Copy</button>",
        "<ul><li><a href=/1>Install</a><li><a href=/2>Upgrade</a><li><a href=/3>Run it</a><li><a href=/4>Stop</a></ul>",
    ],
)
def test_navigation_and_other_elements_around_the_content_are_left_out(beside: str) -> None:
    assert text_of(f"{beside}<div>{CONTENT}{beside}</div>{beside}") == "# Restart a node\n\nDrain it first.\n"


@pytest.mark.parametrize(
    "wrapper",
    ["sidebar-layout", "page-header-fixed", "layout has-sidebar", "content-with-toc", "related", "footer", "menu"],
)
def test_wrapper_of_the_content_is_kept_whatever_its_class_is(wrapper: str) -> None:
    assert "Drain it first." in text_of(f"<div class='{wrapper}'>{CONTENT}</div>")


@pytest.mark.parametrize(
    "name", ["note", "warning", "admonition", "tabs", "card", "step", "banner-text", "shared-memory"]
)
def test_parts_of_the_content_are_kept(name: str) -> None:
    assert "Mind the gap." in text_of(f"<main>{CONTENT}<div class='{name}'>Mind the gap.</div></main>")


def test_a_list_of_links_in_the_main_part_is_kept() -> None:
    links = "".join(f"<li><a href='/{n}'>Topic {n}</a></li>" for n in range(9))
    assert "- Topic 8" in text_of(f"<main>{CONTENT}<ul>{links}</ul></main>")


def test_a_list_of_commands_is_no_menu() -> None:
    commands = "".join(f"<li><a href='#{n}'><code>cmd{n}</code></a></li>" for n in range(9))
    assert "cmd8" in text_of(f"{CONTENT}<ul>{commands}</ul>")


def test_a_class_marks_the_main_part_if_it_is_most_of_the_page() -> None:
    body = f"<div>Ad</div><div class='entry-content'>{CONTENT}{'<p>More.</p>' * 20}</div><div>Ad</div>"
    assert "Ad" not in text_of(body).split()


def test_headings_code_and_tables_are_kept() -> None:
    table = "<table><tr><th>Step</th><th>Seconds</th></tr><tr><td>drain</td><td>300</td></tr></table>"
    code = "<pre><code class='language-sh'>kubectl drain n1\n  x</code></pre>"
    assert text_of(f"<main>{CONTENT}<h2>Then</h2>{code}{table}</main>").endswith(
        "## Then\n\n```sh\nkubectl drain n1\n  x\n```\n\n| Step | Seconds |\n| --- | --- |\n| drain | 300 |\n"
    )


def test_marks_beside_headings_are_left_out() -> None:
    body = "<main><h1>Restart<a class=headerlink href='#r'>¶</a></h1><h2><a href='#x'>#</a> Then</h2><p>x</p></main>"
    assert text_of(body) == "# Restart\n\n## Then\n\nx\n"


def test_code_laid_out_beside_its_line_numbers_is_code() -> None:
    table = (
        "<table class='highlighttable'><tr><td class='linenos'><pre>1\n2</pre></td>"
        "<td class='code'><pre>first\nsecond</pre></td></tr></table>"
    )
    assert text_of(f"<main><p>x</p>{table}</main>") == "x\n\n```\nfirst\nsecond\n```\n"


def test_the_first_heading_is_the_title_if_the_page_adds_the_site_s_name() -> None:
    page = b"<title>Restart | Acme</title><main><h1>Restart</h1></main>"
    assert read_page(WebReply("https://e.org/", 200, {}, page)).metadata["title"] == "Restart"


def test_another_heading_is_not_the_title() -> None:
    page = b"<title>Restart a node</title><main><h1>Welcome</h1></main>"
    assert read_page(WebReply("https://e.org/", 200, {}, page)).metadata["title"] == "Restart a node"


def test_a_limited_number_of_links_of_a_page_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "MAX_LINKS", 20)
    page = "".join(f"<a href='/{n}'>x</a>" for n in range(30)).encode()
    assert len(read_page(WebReply("https://e.org/", 200, {}, page)).links) == 20


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("text/html; charset=iso-8859-1", b"<p>caf\xe9</p>"),
        ("text/html", b"<meta charset='iso-8859-1'><p>caf\xe9</p>"),
        ("text/html", "<p>café</p>".encode()),
        ("text/html", "<meta charset=nonsense><p>café</p>".encode()),
    ],
)
def test_a_page_is_read_in_the_charset_that_it_names(kind: str, body: bytes) -> None:
    assert read_page(WebReply("https://e.org/", 200, {"content-type": kind}, body)).text == "café\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-01-02", "2024-01-02"),
        ("2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z"),
        ("2024-01-02T03:04:05.678+02:00", "2024-01-02T01:04:05Z"),
        ("2024-01-02 03:04", "2024-01-02T03:04:00Z"),
        ("2024-13-45", ""),
        ("2 January 2024", ""),
        (None, ""),
        (["2024"], ""),
    ],
)
def test_dates_are_iso_or_nothing(text: object, expected: str) -> None:
    assert iso_date(text) == expected


# -- addresses


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("../a/./b#c", "https://e.org/a/b"),
        ("?b=2&a=1&utm_campaign=x", "https://e.org/docs/x?a=1&b=2"),
        ("//other.org/ x", "https://other.org/%20x"),
        ("HTTPS://E.ORG:443/Ä", "https://e.org/%C3%84"),
        ("mailto:a@e.org", ""),
        ("http://[bad", ""),
        ("http://u:p@e.org/", ""),
        ("/" + "x" * 3000, ""),
    ],
)
def test_references_become_addresses_of_one_form(reference: str, expected: str) -> None:
    assert page_url("https://e.org/docs/x", reference) == expected


def test_keys_determine_the_format_of_their_document() -> None:
    assert page_key("https://e.org/guide/") == "e.org/guide"
    assert page_key("https://e.org/guide.html") == "e.org/guide.html.md"
    assert page_key("https://e.org/v1.2") == "e.org/v1.2"
    assert file_key("https://e.org/a.pdf", ".pdf") == "e.org/a.pdf"
    assert file_key("https://e.org/get?id=1", ".pdf") == "e.org/get?id=1.pdf"


def test_long_addresses_get_keys_that_stay_apart() -> None:
    keys = {page_key(f"https://e.org/{'x' * 600}{n}") for n in range(2)}
    assert len(keys) == 2
    assert max(map(len, keys)) <= 500


@pytest.mark.parametrize(("path", "expected"), [("/a", True), ("/a.html", True), ("/a.php", True), ("/v1.2", True)])
def test_pages_may_be_documents(path: str, expected: bool) -> None:
    assert may_be_document(f"https://e.org{path}") is expected


@pytest.mark.parametrize("path", ["/a.png", "/a.MP4", "/a.woff2", "/a.zip", "/a.js", "/a.tar.gz", "/a.exe"])
def test_pictures_and_archives_are_none(path: str) -> None:
    assert not may_be_document(f"https://e.org{path}")


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("/docs/", "/docs/a", True),
        ("docs/", "/docs/a", True),
        ("/docs/", "/x/docs/a", False),
        ("*/docs/", "/x/docs/a", True),
        ("/*.html$", "/a.html", True),
        ("/*.html$", "/a.html?x=1", False),
        ("/a.b", "/axb", False),
        ("/*?hl=", "/a?hl=de", True),
    ],
)
def test_patterns_are_those_of_robots_rules(pattern: str, path: str, expected: bool) -> None:
    assert crawl_scope(["https://e.org/"], (), (pattern,), ()).has(f"https://e.org{path}") is expected


def test_with_and_without_www_it_is_the_same_site() -> None:
    scope = crawl_scope(["https://www.e.org/"], ("docs.e.org",), (), ())
    assert scope.has("https://e.org/x")
    assert scope.has("https://docs.e.org/x")
    assert not scope.has("https://evil-e.org/x")
    assert not scope.has("https://x.e.org/")
