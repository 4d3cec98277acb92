from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from opx.adapters.web import USER_AGENT, HttpWeb
from opx.domain.sources import RateLimit
from opx.errors import ForbiddenAddressError, SourceRefusedError, SourceShapeError, SourceUnavailableError
from opx.ports.sources import WebReply
from opx_testing.fake_time import FakeTime
from tests.doubles.misbehaving_site import Answer, MemoryValidators, MisbehavingSite, a_web


@pytest.fixture
def site() -> Iterator[MisbehavingSite]:
    with MisbehavingSite() as site:
        site.page("/x", {"a": 1}, etag='"1"')
        yield site


@pytest.fixture
def other() -> Iterator[MisbehavingSite]:
    with MisbehavingSite() as other:
        other.page("/y", "there")
        yield other


@pytest.fixture
def validators() -> MemoryValidators:
    return MemoryValidators()


@pytest.fixture
def web(
    site: MisbehavingSite, other: MisbehavingSite, time: FakeTime, validators: MemoryValidators
) -> Iterator[HttpWeb]:
    with closing(a_web(site, other, time=time, validators=validators)) as web:
        yield web


# -- requests and replies


def test_a_reply_has_address_status_headers_and_body(web: HttpWeb, site: MisbehavingSite) -> None:
    reply = web.get(site.url("/x"), query={"q": "a b&c", "n": 2})
    assert (reply.url, reply.status, reply.json()) == (site.url("/x?q=a+b%26c&n=2"), 200, {"a": 1})
    assert reply.headers["content-type"] == "application/json"
    assert site.requests[-1].parameters == {"q": "a b&c", "n": "2"}


def test_requests_carry_the_user_agent(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"))
    assert site.requests[-1].headers["user-agent"] == USER_AGENT
    assert site.requests[-1].headers["host"] == site.host


def test_a_search_is_posted_as_json(web: HttpWeb, site: MisbehavingSite) -> None:
    site.on("/search", lambda request: Answer(200, {"asked": request.json(), "how": request.method}))
    assert web.post(site.url("/search"), json={"q": "é"}).json() == {"asked": {"q": "é"}, "how": "POST"}
    assert site.requests[-1].headers["content-type"] == "application/json"


def test_headers_of_one_name_are_joined(web: HttpWeb, site: MisbehavingSite) -> None:
    site.on("/twice", Answer(200, b"", {"X-Robots-Tag": "noindex", "x-robots-tag": "nofollow"}))
    assert web.get(site.url("/twice")).headers["x-robots-tag"] == "noindex, nofollow"


@pytest.mark.parametrize("status", [404, 410])
def test_nothing_at_an_address_is_a_reply(web: HttpWeb, site: MisbehavingSite, status: int) -> None:
    site.page("/gone", "", status=status)
    assert web.get(site.url("/gone")).gone


@pytest.mark.parametrize("status", [400, 401, 403, 405, 451])
def test_permanent_refusal_is_not_retried(web: HttpWeb, site: MisbehavingSite, status: int) -> None:
    site.page("/no", "", status=status)
    with pytest.raises(SourceRefusedError) as refusal:
        web.get(site.url("/no"), query={"key": "secret"})
    assert refusal.value.status == status
    assert "secret" not in str(refusal.value)
    assert site.request_count("/no") == 1


def test_proxies_of_the_environment_are_not_used(
    web: HttpWeb, site: MisbehavingSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert web.get(site.url("/x")).status == 200


# -- failures that may pass


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_temporary_error_is_retried(web: HttpWeb, site: MisbehavingSite, time: FakeTime, status: int) -> None:
    site.fail("/x", status=status, times=2)
    assert web.get(site.url("/x")).status == 200
    assert time.slept == [1.0, 2.0]


def test_temporary_error_that_persists_is_reported(web: HttpWeb, site: MisbehavingSite, time: FakeTime) -> None:
    site.fail("/x", status=503, times=9)
    with pytest.raises(SourceUnavailableError, match="status 503"):
        web.get(site.url("/x"))
    assert site.request_count("/x") == 4
    assert time.slept == [1.0, 2.0, 4.0]


def test_a_post_is_tried_again_as_well(web: HttpWeb, site: MisbehavingSite) -> None:
    site.fail("/x")
    assert web.post(site.url("/x"), json={}).status == 200


def test_retry_after_in_seconds_is_waited_for(web: HttpWeb, site: MisbehavingSite, time: FakeTime) -> None:
    site.fail("/x", status=429, retry_after="7")
    web.get(site.url("/x"))
    assert time.slept == [7.0]


def test_retry_after_as_a_date_is_waited_for(web: HttpWeb, site: MisbehavingSite, time: FakeTime) -> None:
    site.fail("/x", status=503, retry_after=format_datetime(datetime.fromtimestamp(time.now + 30, UTC), usegmt=True))
    web.get(site.url("/x"))
    assert time.slept == [30.0]


@pytest.mark.parametrize("text", ["soon", "-5", "Mon, 99 Foo 2026 99:99:99 GMT", "٣"])
def test_an_invalid_retry_after_is_ignored(web: HttpWeb, site: MisbehavingSite, time: FakeTime, text: str) -> None:
    site.fail("/x", status=429, headers={"Retry-After": text.encode().decode("latin-1")})
    web.get(site.url("/x"))
    assert time.slept == [1.0]


def test_a_long_retry_after_ends_the_request_and_is_passed_on(
    web: HttpWeb, site: MisbehavingSite, time: FakeTime
) -> None:
    site.fail("/x", status=429, retry_after="61")
    with pytest.raises(SourceUnavailableError) as failure:
        web.get(site.url("/x"))
    assert failure.value.retry_after == 61
    assert time.slept == []


def test_a_refusal_with_a_reset_time_is_a_rate_limit(web: HttpWeb, site: MisbehavingSite, time: FakeTime) -> None:
    reset = str(int(time.now) + 20)
    site.fail("/x", status=403, headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset})
    assert web.get(site.url("/x")).status == 200
    assert time.slept == [20.0]


def test_a_reply_that_breaks_off_is_never_a_reply(web: HttpWeb, site: MisbehavingSite) -> None:
    site.page("/long", "z" * 100_000)
    site.cut("/long", times=4)
    with pytest.raises(SourceUnavailableError, match="broke off"):
        web.get(site.url("/long"))


def test_a_reply_that_breaks_off_once_is_read_again(web: HttpWeb, site: MisbehavingSite) -> None:
    site.cut("/x")
    site.hang_up("/x")
    assert web.get(site.url("/x")).json() == {"a": 1}


def test_json_that_ends_in_the_middle_is_of_no_shape(web: HttpWeb, site: MisbehavingSite) -> None:
    site.cut_quietly("/x")
    with pytest.raises(SourceShapeError):
        web.get(site.url("/x")).json()


def test_a_server_that_is_not_there_may_come_back(web: HttpWeb, site: MisbehavingSite, time: FakeTime) -> None:
    with MisbehavingSite() as gone:
        address = gone.url("/x")
    with closing(a_web(gone, time=time)) as other, pytest.raises(SourceUnavailableError, match="no connection"):
        other.get(address)
    assert len(time.slept) == 3


def test_a_connection_that_the_server_closed_meanwhile_is_made_anew(web: HttpWeb, site: MisbehavingSite) -> None:
    site.on("/close", Answer(200, "bye", {"Connection": "close"}))
    assert web.get(site.url("/close")).body == b"bye"
    assert web.get(site.url("/x")).status == 200


# -- rate limits


def test_requests_keep_the_rate_of_the_source(site: MisbehavingSite, time: FakeTime) -> None:
    with closing(a_web(site, time=time, rate=RateLimit(5, 30))) as web:
        for _ in range(11):
            web.get(site.url("/x"))
    assert time.slept == [30.0, 30.0]


def test_repeated_requests_keep_the_rate_as_well(site: MisbehavingSite, time: FakeTime) -> None:
    site.fail("/x", status=500)
    with closing(a_web(site, time=time, rate=RateLimit(1, 10))) as web:
        web.get(site.url("/x"))
    assert time.slept == [1.0, 9.0]


def test_a_site_can_demand_a_lower_rate(site: MisbehavingSite, time: FakeTime) -> None:
    with closing(a_web(site, time=time, rate=RateLimit(10, 1))) as web:
        web.slow_down(RateLimit(1, 5))
        for _ in range(3):
            web.get(site.url("/x"))
    assert time.slept == [5.0, 5.0]


# -- redirects


def test_redirects_are_followed_and_the_reply_has_the_final_address(
    web: HttpWeb, site: MisbehavingSite, other: MisbehavingSite
) -> None:
    site.redirect("/a", "b?q=1#part", status=301)
    site.redirect("/b", other.url("/y"))
    reply = web.get(site.url("/a"))
    assert (reply.url, reply.text()) == (other.url("/y"), "there")


def test_five_redirects_are_followed_and_not_six(web: HttpWeb, site: MisbehavingSite) -> None:
    for number in range(6):
        site.redirect(f"/{number}", f"/{number + 1}")
    site.page("/6", "end")
    assert web.get(site.url("/1")).text() == "end"
    with pytest.raises(SourceRefusedError, match="more than 5"):
        web.get(site.url("/0"))


def test_redirects_in_a_circle_are_refused_at_once(web: HttpWeb, site: MisbehavingSite) -> None:
    site.redirect("/a", "/b")
    site.redirect("/b", "/a")
    with pytest.raises(SourceRefusedError, match="circle"):
        web.get(site.url("/a"))
    assert len(site.requests) == 2


@pytest.mark.parametrize(
    "target",
    ["http://169.254.169.254/latest/meta-data", "http://[::1]/", "http://127.0.0.1:22/", "http://2130706433/"],
)
def test_a_redirect_to_a_private_address_is_refused(web: HttpWeb, site: MisbehavingSite, target: str) -> None:
    site.redirect("/a", target)
    with pytest.raises(ForbiddenAddressError):
        web.get(site.url("/a"))


@pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://e.org/", "https://u:p@e.org/"])
def test_a_redirect_away_from_the_web_is_refused(web: HttpWeb, site: MisbehavingSite, target: str) -> None:
    site.redirect("/a", target)
    with pytest.raises(ForbiddenAddressError):
        web.get(site.url("/a"))


def test_a_redirect_to_an_invalid_address_is_refused(web: HttpWeb, site: MisbehavingSite) -> None:
    site.redirect("/a", "http://[bad/")
    with pytest.raises(SourceRefusedError, match="an invalid address"):
        web.get(site.url("/a"))


def test_credentials_are_not_taken_to_another_host(web: HttpWeb, site: MisbehavingSite, other: MisbehavingSite) -> None:
    site.redirect("/a", other.url("/y"))
    secrets = {"Authorization": "Bearer t", "Cookie": "c", "X-Api-Key": "k", "PRIVATE-TOKEN": "p", "Accept": "text/x"}
    web.get(site.url("/a"), headers=secrets)
    assert site.requests[-1].headers["private-token"] == "p"
    assert {*other.requests[-1].headers} == {"host", "user-agent", "accept", "accept-encoding"}


def test_credentials_stay_on_the_same_host(web: HttpWeb, site: MisbehavingSite) -> None:
    site.redirect("/a", "/x")
    web.get(site.url("/a"), headers={"Authorization": "Bearer t"})
    assert site.requests[-1].headers["authorization"] == "Bearer t"


def test_a_redirected_search_is_sent_on_only_if_it_stays_a_search(web: HttpWeb, site: MisbehavingSite) -> None:
    site.on("/search", lambda request: Answer(200, request.json()))
    site.redirect("/kept", "/search", status=308)
    site.redirect("/lost", "/search", status=302)
    assert web.post(site.url("/kept"), json={"q": 1}).json() == {"q": 1}
    with pytest.raises(SourceRefusedError, match="set that address"):
        web.post(site.url("/lost"), json={"q": 1})


# -- conditional requests


def test_without_a_commit_a_page_is_sent_again(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"), conditional=True)
    assert web.get(site.url("/x"), conditional=True).status == 200


def test_unmodified_page_is_not_sent_again_after_its_validators_were_committed(
    web: HttpWeb, site: MisbehavingSite
) -> None:
    site.page("/dated", "old", last_modified="Wed, 21 Oct 2015 07:28:00 GMT")
    for place in ("/x", "/dated"):
        web.get(site.url(place), conditional=True)
        web.commit_validators()
        reply = web.get(site.url(place), conditional=True)
        assert reply.not_modified
        assert reply.body == b""


def test_a_changed_page_is_sent(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"), conditional=True)
    web.commit_validators()
    site.page("/x", {"a": 2}, etag='"2"')
    assert web.get(site.url("/x"), conditional=True).json() == {"a": 2}


def test_validators_are_of_the_address_with_its_query(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"), query={"page": 1}, conditional=True)
    web.commit_validators()
    assert web.get(site.url("/x"), query={"page": 2}, conditional=True).status == 200
    assert web.get(site.url("/x"), query={"page": 1}, conditional=True).not_modified


def test_unconditional_requests_are_answered_whole_and_commit_nothing(
    web: HttpWeb, site: MisbehavingSite, validators: MemoryValidators
) -> None:
    web.get(site.url("/x"))
    web.commit_validators()
    assert validators.kept == {}


def test_a_page_that_was_gone_is_sent_whole_when_it_comes_back(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"), conditional=True)
    web.commit_validators()
    site.page("/x", "not here", etag='"error page"', status=404)
    assert web.get(site.url("/x"), conditional=True).gone
    web.commit_validators()
    site.page("/x", {"a": 1}, headers={"ETag": '"error page"'}, etag='"error page"')
    assert web.get(site.url("/x"), conditional=True).status == 200


def test_conditions_are_kept_through_a_redirect(web: HttpWeb, site: MisbehavingSite, other: MisbehavingSite) -> None:
    other.page("/y", "there", etag='"y"')
    site.redirect("/a", other.url("/y"))
    web.get(site.url("/a"), conditional=True)
    web.commit_validators()
    assert web.get(site.url("/a"), conditional=True).not_modified


def test_without_a_place_for_validators_nothing_is_conditional(site: MisbehavingSite) -> None:
    with closing(a_web(site)) as web:
        web.get(site.url("/x"), conditional=True)
        web.commit_validators()
        assert web.get(site.url("/x"), conditional=True).status == 200


def test_notes_are_kept_with_a_page_until_it_is_sent_anew(web: HttpWeb, site: MisbehavingSite) -> None:
    web.get(site.url("/x"), conditional=True)
    web.note(site.url("/x"), {"links": "/y"})
    assert web.recall(site.url("/x#part"))["links"] == "/y"
    web.commit_validators()
    assert web.get(site.url("/x"), conditional=True).not_modified
    assert web.recall(site.url("/x"))["links"] == "/y"
    site.page("/x", {"a": 2}, etag='"2"')
    web.get(site.url("/x"), conditional=True)
    assert dict(web.recall(site.url("/x"))) == {"etag": '"2"'}


def test_notes_that_were_not_committed_are_lost(
    web: HttpWeb, site: MisbehavingSite, validators: MemoryValidators
) -> None:
    web.note(site.url("/x"), {"links": "/y"})
    with closing(a_web(site, validators=validators)) as another:
        assert another.recall(site.url("/x")) == {}


def test_a_charset_that_nobody_knows_is_read_as_utf_8(site: MisbehavingSite, web: HttpWeb) -> None:
    def reply(kind: str, body: bytes) -> str:
        return WebReply("u", 200, {"content-type": kind}, body).text()

    assert reply("text/html; charset=ISO-8859-1", b"\xe9") == "é"
    for charset in ("nonsense", "idna", "base64", "undefined"):
        assert reply(f"text/html; charset={charset}", "é".encode()) == "é"
