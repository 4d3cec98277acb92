from __future__ import annotations

from itertools import pairwise

import pytest

from opx.domain.sources import PullRequest
from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from tests.doubles.misbehaving_site import MisbehavingSite
from tests.support.web_support import Pulls, documents, html, refused, rss, rss_item, unchanged

ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title><id>urn:blog</id>
<entry><id>tag:e.org,2024:1</id><title type="html">Tom &amp;amp; &lt;b&gt;Co&lt;/b&gt;</title><link href="/posts/1"/>
<author><name>Ann</name></author><category term="ops"/><category term="dns"/>
<published>2024-01-02T03:04:05+01:00</published><updated>2024-02-03T04:05:06Z</updated>
<summary>Short.</summary>
<content type="html">&lt;h2&gt;Why&lt;/h2&gt;&lt;pre&gt;&lt;code class="language-sh"&gt;dig e.org&lt;/code&gt;&lt;/pre&gt;
&lt;script&gt;x&lt;/script&gt;</content></entry></feed>"""


def feed_of(site: MisbehavingSite, *places: str, **options: object) -> Pulls:
    return Pulls(site, "feed", urls=tuple(site.url(place) for place in places or ("/feed",)), **options)


def test_an_atom_entry_becomes_markdown_with_its_metadata(site: MisbehavingSite) -> None:
    site.page("/feed", ATOM, kind="application/atom+xml")
    (found,) = documents(feed_of(site).pull()).values()
    assert found.content == "## Why\n\n```sh\ndig e.org\n```"
    assert found.metadata == {
        "title": "Tom & Co",
        "source_uri": site.url("/posts/1"),
        "author": "Ann",
        "tags": ["ops", "dns"],
        "created_at": "2024-01-02T02:04:05Z",
        "last_updated": "2024-02-03T04:05:06Z",
    }


def test_entries_are_named_by_their_ids(site: MisbehavingSite) -> None:
    ids = ("<guid>https://e.org/posts/1.html?utm_source=rss</guid>", "<guid>41</guid>", "<link>http://e.org/two</link>")
    items = [f"<item>{each}<description>text {each[-8:-1]}</description></item>" for each in ids]
    site.page("/feed", rss(items), kind="application/rss+xml")
    keys = [document.key for page in feed_of(site).pull() for document in page.documents]
    assert keys == ["e.org/posts/1.html.md", f"{site.host}/41", "e.org/two"]


def test_the_key_of_an_entry_without_id_and_link_is_of_its_content(site: MisbehavingSite) -> None:
    items = [f"<item><title>t</title><description>{text}</description></item>" for text in ("one", "two", "one")]
    site.page("/feed", rss(items))
    first = documents(feed_of(site).pull())
    site.page("/feed", rss([*reversed(items)]))
    assert len(first) == 2
    assert documents(feed_of(site).pull()).keys() == first.keys()


def test_a_long_feed_without_dates_is_given_in_small_pages(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(1_001)]))
    pages = feed_of(site).pull()
    assert sum(len(page.documents) for page in pages) == 1_001
    assert max(len(page.documents) for page in pages) == 100
    assert all("last_updated" not in document.metadata for document in pages[0].documents)


def test_of_entries_with_one_id_the_first_counts(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(1, text="new"), rss_item(1, text="old")]))
    assert [document.content for page in feed_of(site).pull() for document in page.documents] == ["new"]


def test_entries_that_left_a_feed_are_not_withdrawn(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(1)]))
    pages = feed_of(site).pull()
    assert not any(page.complete or page.withdrawn for page in pages)


def test_of_a_feed_at_most_so_many_entries_are_read(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(5)]))
    assert [*documents(feed_of(site, max_entries=2).pull())] == ["/post-0", "/post-1"]


def test_an_entry_without_text_is_reported(site: MisbehavingSite) -> None:
    site.page("/feed", rss(["<item><guid>1</guid><title>Only a title</title></item>", rss_item(2)]))
    pages = feed_of(site).pull()
    assert [*documents(pages)] == ["/post-2"]
    assert "full_article" in refused(pages)["/1"]


@pytest.mark.parametrize("date", ["yesterday", "Mon, 99 Foo 2026 99:99:99", "0001-01-01T00:00:00Z", "999999-01-01"])
def test_an_invalid_date_is_left_out(site: MisbehavingSite, date: str) -> None:
    site.page("/feed", rss([rss_item(1, extra=f"<pubDate>{date}</pubDate>")]))
    (found,) = documents(feed_of(site).pull()).values()
    assert "last_updated" not in found.metadata


def test_markup_in_titles_and_scripts_in_texts_stay_outside(site: MisbehavingSite) -> None:
    text = "&lt;p onclick='x()'&gt;Text&lt;/p&gt;&lt;script&gt;alert(1)&lt;/script&gt;&lt;style&gt;p {}&lt;/style&gt;"
    site.page("/feed", rss([rss_item(1, text=text)]))
    (found,) = documents(feed_of(site).pull()).values()
    assert found.content == "Text"


# -- what is no feed


@pytest.mark.parametrize("body", [html("A page"), "", '{"version": "1"}', "words", "<?xml version='1.0'?><x/>"])
def test_an_invalid_feed_is_a_shape_error(site: MisbehavingSite, body: str) -> None:
    site.page("/feed", body)
    with pytest.raises(SourceShapeError):
        feed_of(site).pull()


def test_a_feed_that_breaks_off_is_not_half_read(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(9)]))
    site.cut_quietly("/feed")
    with pytest.raises(SourceShapeError, match="breaks off"):
        feed_of(site).pull()


def test_a_feed_that_is_not_well_formed_is_read_all_the_same(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(1, text="Tom & Jerry &nbsp;")]))
    (found,) = documents(feed_of(site).pull()).values()
    assert "Tom & Jerry" in str(found.content)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_feed_that_declares_entities_is_refused_as_they_may_grow(site: MisbehavingSite, encoding: str) -> None:
    bomb = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    feed = rss([rss_item(1, text="&b;&b;")]).replace('<?xml version="1.0"?>', '<?xml version="1.0"?>' + bomb)
    site.page("/feed", feed.encode(encoding), kind="application/rss+xml")
    with pytest.raises(SourceShapeError, match="entities"):
        feed_of(site).pull()


def test_a_feed_that_is_not_there_is_an_error(site: MisbehavingSite) -> None:
    with pytest.raises(SourceRefusedError, match="no feed"):
        feed_of(site).pull()


def test_of_several_feeds_a_broken_one_is_reported_and_the_others_are_read(site: MisbehavingSite) -> None:
    site.page("/a", "no feed")
    site.page("/b", rss([rss_item(1)]))
    pages = feed_of(site, "/a", "/b").pull()
    assert [*documents(pages)] == ["/post-1"]
    assert "RSS or Atom" in refused(pages)["/a"]


def test_if_no_feed_can_be_read_that_is_an_error(site: MisbehavingSite) -> None:
    site.page("/a", "no feed")
    site.page("/b", "", status=503)
    with pytest.raises(SourceUnavailableError):
        feed_of(site, "/a", "/b").pull()


@pytest.mark.parametrize("urls", [(), ("feed.xml",), ("file:///x",)])
def test_a_feed_needs_an_address_on_the_web(site: MisbehavingSite, urls: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInputError):
        Pulls(site, "feed", urls=urls).pull()


# -- whole articles


LATER = PullRequest(since="2024-01-03T00:00:00Z")


def articles(site: MisbehavingSite, count: int, *, etag: str = '"f"') -> None:
    extra = "<link>{}</link><pubDate>Tue, 02 Jan 2024 03:04:05 GMT</pubDate>"
    site.page("/feed", rss([rss_item(n, extra=extra.format(site.url(f"/posts/{n}"))) for n in range(count)]), etag=etag)
    for number in range(count):
        site.page(f"/posts/{number}", html(f"Article {number}"), etag=f'"{number}"')


def test_whole_articles_are_read_where_they_are(site: MisbehavingSite) -> None:
    articles(site, 1)
    (found,) = documents(feed_of(site, full_article=True).pull()).values()
    assert found.content == "# Article 0\n\nAbout Article 0.\n"
    assert found.metadata["title"] == "Post 0"
    assert found.metadata["last_updated"] == "2024-01-02T03:04:05Z"


def test_an_article_that_robots_may_not_read_has_the_text_of_the_feed(site: MisbehavingSite) -> None:
    articles(site, 1)
    site.page("/robots.txt", "User-agent: *\nDisallow: /posts/", kind="text/plain")
    (found,) = documents(feed_of(site, full_article=True).pull()).values()
    assert found.content == "About 0."
    assert site.request_count("/posts/0") == 0


def test_an_article_that_is_gone_is_ingested_from_the_feed(site: MisbehavingSite) -> None:
    articles(site, 1)
    site.remove("/posts/0")
    (found,) = documents(feed_of(site, full_article=True).pull()).values()
    assert found.content == "About 0."


def test_an_article_that_can_not_be_read_now_is_reported(site: MisbehavingSite) -> None:
    articles(site, 2)
    site.fail("/posts/0", status=500, times=4)
    pages = feed_of(site, full_article=True).pull()
    assert [*documents(pages)] == ["/post-1"]
    assert [*refused(pages)] == ["/post-0"]


def test_unchanged_articles_are_named(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    pulls.pull()
    articles_changed = rss([rss_item(n, extra=f"<link>{site.url(f'/posts/{n}')}</link>") for n in range(2)])
    site.page("/feed", articles_changed, etag='"g"')
    site.page("/posts/1", html("Article 1, changed"), etag='"1b"')
    pages = pulls.pull()
    assert unchanged(pages) == ["/post-0"]
    assert [*documents(pages)] == ["/post-1"]


def test_articles_dated_before_the_last_pull_are_not_requested(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    pulls.pull()
    articles(site, 2, etag='"g"')
    site.requests.clear()
    pages = pulls.pull(LATER)
    assert unchanged(pages) == ["/post-0", "/post-1"]
    assert site.request_count("/posts/0") == 0


def test_an_article_that_could_not_be_read_is_tried_again_though_it_is_old_by_now(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    site.fail("/posts/0", status=500, times=4)
    pulls.pull()
    assert [*documents(pulls.pull(LATER))] == ["/post-0"]


def test_a_feed_whose_articles_were_all_read_is_requested_conditionally_again(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    site.fail("/posts/0", status=500, times=4)
    for _ in range(3):
        pages = pulls.pull(LATER)
    assert (documents(pages), unchanged(pages)) == ({}, [])


def test_articles_behind_one_with_a_required_pause_are_read_later(site: MisbehavingSite) -> None:
    articles(site, 12)
    site.page("/other", rss([rss_item(99)]))
    site.fail("/posts/11", status=429, retry_after="600")
    pulls = feed_of(site, "/feed", "/other", full_article=True)
    assert "/post-99" in documents(pulls.pull())
    assert "/post-11" in documents(pulls.pull(LATER))


def test_a_slow_site_s_articles_are_given_away_every_minute(site: MisbehavingSite) -> None:
    articles(site, 6)
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 50", kind="text/plain")
    pulls = feed_of(site, full_article=True)
    given = [(pulls.time.elapsed, [*documents([page])]) for page in pulls.pull_lazily()]
    assert [key for _, keys in given for key in keys] == [f"/post-{number}" for number in range(6)]
    assert max(late - early for early, late in pairwise([0.0, *(elapsed for elapsed, _ in given)])) <= 110


def test_a_pull_of_a_slow_site_resumes_behind_its_last_page(site: MisbehavingSite) -> None:
    articles(site, 6)
    site.page("/robots.txt", "User-agent: *\nCrawl-delay: 50", kind="text/plain")
    pulls = feed_of(site, full_article=True)
    first = pulls.pull(stop_after=1)
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert [*documents(first), *documents(rest)] == [f"/post-{number}" for number in range(6)]


def test_an_entry_that_appears_with_an_old_date_is_read(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    pulls.pull()
    articles(site, 3, etag='"g"')
    pages = pulls.pull(LATER)
    assert [*documents(pages)] == ["/post-2"]
    assert unchanged(pages) == ["/post-0", "/post-1"]


def test_an_article_that_is_no_longer_kept_is_read_whole_though_it_did_not_change(site: MisbehavingSite) -> None:
    articles(site, 2)
    pulls = feed_of(site, full_article=True)
    pulls.pull()
    pulls.taken = {key for key in pulls.taken if key.endswith("post-0")}
    articles(site, 2, etag='"g"')
    pages = pulls.pull()
    assert [*documents(pages)] == ["/post-1"]
    assert unchanged(pages) == ["/post-0"]


# -- the next pull, and interrupted ones


def test_an_unchanged_feed_returns_nothing(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(1)]), etag='"1"')
    pulls = feed_of(site)
    pulls.pull()
    pages = pulls.pull()
    assert documents(pages) == {}
    assert not pages[-1].complete


def test_an_interrupted_pull_resumes_behind_its_last_page(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(250)]), etag='"1"')
    site.page("/other", rss([rss_item(number) for number in range(900, 950)]), etag='"2"')
    pulls = feed_of(site, "/feed", "/other")
    first = pulls.pull(stop_after=1)
    rest = pulls.pull(PullRequest(cursor=first[-1].cursor))
    assert len(documents(first)) == 100
    assert len(documents(rest)) == 200
    assert not documents(first).keys() & documents(rest).keys()


def test_entries_that_came_meanwhile_do_not_move_the_place(site: MisbehavingSite) -> None:
    items = [rss_item(number) for number in range(150)]
    site.page("/feed", rss(items), etag='"1"')
    pulls = feed_of(site)
    first = pulls.pull(stop_after=1)
    site.page("/feed", rss([rss_item(999), *items]), etag='"2"')
    assert [*documents(pulls.pull(PullRequest(cursor=first[-1].cursor)))] == [f"/post-{n}" for n in range(100, 150)]
    assert "/post-999" in documents(pulls.pull())


def test_if_the_last_entry_is_gone_the_feed_is_read_from_its_beginning(site: MisbehavingSite) -> None:
    site.page("/feed", rss([rss_item(number) for number in range(150)]))
    pulls = feed_of(site)
    first = pulls.pull(stop_after=1)
    site.page("/feed", rss([rss_item(number) for number in range(200, 300)]))
    assert len(documents(pulls.pull(PullRequest(cursor=first[-1].cursor)))) == 100
