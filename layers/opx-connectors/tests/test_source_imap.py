"""Messages on an IMAP server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opx.connectors.connector import Connector
from opx.domain.sources import PullRequest
from opx.errors import (
    ForbiddenAddressError,
    InvalidInputError,
    SourceRefusedError,
    SourceShapeError,
    SourceUnavailableError,
)
from opx_connectors.mail import imap as imap_module
from opx_connectors.mail.imap import quoted_folder
from tests.doubles.imap_server import USER, Folder, ImapDouble, imap_server
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each


def a_message(subject: str = "Disk full", body: bytes = b"Please help.\r\n", date: str = "Tue, 02 Jan 2024 10:00:00 +0100") -> bytes:  # fmt: skip # noqa: E501
    head = f"From: Ann <ann@example.org>\r\nSubject: {subject}\r\n" + (f"Date: {date}\r\n" if date else "")
    return head.encode() + b"\r\n" + body


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imap")


@pytest.fixture
def server(folder: Path) -> Iterator[ImapDouble]:
    with imap_server(folder) as double:
        yield double


def connector(server: ImapDouble, **options: Any) -> Connector[Any]:
    known, tools = options.pop("known", ()), options.pop("tools", None)
    given = {"host": "127.0.0.1", "port": server.port, "user": USER, "password_secret": "mail"}
    return a_connector("imap", known=known, tools=tools, **{**given, "ca_file": str(server.ca_file), **options})


def filled(server: ImapDouble, count: int) -> None:
    server.folders["INBOX"].messages = {number: a_message(f"Number {number}") for number in range(1, count + 1)}


def test_a_message_is_its_bytes_with_metadata_of_its_headers(server: ImapDouble) -> None:
    server.folders["INBOX"].messages = {5: a_message("=?utf-8?q?Re=3A_Stra=C3=9Fe?=")}
    found = documents_of(pulled(connector(server)))["INBOX/7-5.eml"]
    assert found.content == server.folders["INBOX"].messages[5]
    assert found.metadata == {
        "title": "Re: Straße",
        "author": "Ann",
        "source_uri": "imap://127.0.0.1/INBOX;UIDVALIDITY=7/;UID=5",
        "created_at": "2024-01-02T09:00:00Z",
        "last_updated": "2024-01-02T09:00:00Z",
        "tags": ["e-mail", "thread: Straße"],
    }


def test_nothing_is_marked_as_read(server: ImapDouble) -> None:
    filled(server, 3)
    pulled(connector(server))
    assert {command.split()[0] for command in server.commands} == {"CAPABILITY", "LOGIN", "EXAMINE", "UID", "LOGOUT"}
    assert not any("BODY[" in command for command in server.commands)


def test_every_message_of_every_folder_is_read(server: ImapDouble) -> None:
    filled(server, 450)
    server.folders["Alerts &AOk-"] = Folder({9: a_message()}, validity=8)
    pages = pulled(connector(server, folders=["INBOX", "Alerts é"]))
    assert named(pages) == {f"INBOX/7-{number}.eml" for number in range(1, 451)} | {"Alerts é/8-9.eml"}
    assert [page.complete for page in pages].count(True) == 1
    assert pages[-1].complete


def test_a_pull_that_stops_after_any_page_resumes_there(server: ImapDouble) -> None:
    filled(server, 450)
    for _, both in resumed_after_each(connector(server)):
        assert len(both) == 450


def test_known_messages_are_listed_and_not_fetched(server: ImapDouble) -> None:
    filled(server, 6)
    known = [f"INBOX/7-{number}.eml" for number in (1, 2, 4, 6)]
    pages = pulled(connector(server, known=known), since="2024-02-01T00:00:00Z")
    assert server.fetched() == [3, 5]
    assert len(named(pages)) == 6


def test_known_messages_between_pages_are_listed_too(server: ImapDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imap_module, "FETCH_BYTES", 1)
    filled(server, 9)
    mailbox = connector(server, known=["INBOX/7-1.eml", "INBOX/7-5.eml"])
    for _, both in resumed_after_each(mailbox, since="2024-02-01T00:00:00Z"):
        assert len(both) == 9


def test_expunged_and_deleted_messages_are_not_named(server: ImapDouble) -> None:
    filled(server, 3)
    del server.folders["INBOX"].messages[1]
    server.folders["INBOX"].deleted = {2}
    assert named(pulled(connector(server))) == {"INBOX/7-3.eml"}


def test_a_cursor_of_another_validity_begins_the_folder_anew(server: ImapDouble) -> None:
    filled(server, 3)
    server.folders["INBOX"].validity = 8
    pages = pulled(connector(server), cursor={"folder": 0, "validity": 7, "after": 3})
    assert len(named(pages)) == 3


def test_a_message_that_is_too_large_is_refused_unread(server: ImapDouble) -> None:
    server.folders["INBOX"].messages = {1: a_message(body=b"x" * 5000), 2: a_message()}
    pages = pulled(connector(server, max_message_bytes=1000))
    assert [each.key for page in pages for each in page.refused] == ["INBOX/7-1.eml"]
    assert server.fetched() == [2]


def test_an_invalid_message_is_refused(server: ImapDouble) -> None:
    server.folders["INBOX"].messages = {1: b"\r\n\r\n", 2: a_message()}
    pages = pulled(connector(server))
    assert set(documents_of(pages)) == {"INBOX/7-2.eml"}
    assert "no headers" in pages[0].refused[0].reason


@pytest.mark.parametrize("date", ["", "yesterday", "Tue, 99 Jan 99999 10:00:00 +0100"])
def test_without_a_date_it_is_when_it_came(server: ImapDouble, date: str) -> None:
    server.folders["INBOX"].messages = {1: a_message(date=date)}
    assert documents_of(pulled(connector(server)))["INBOX/7-1.eml"].metadata["created_at"] == "2024-07-17T09:44:25Z"


def test_an_empty_folder_is_a_whole_listing(server: ImapDouble) -> None:
    pages = pulled(connector(server))
    assert [(named([page]), page.complete) for page in pages] == [(set(), True)]


def test_a_connection_that_breaks_off_resumes_another_time(server: ImapDouble) -> None:
    filled(server, 450)
    pages = connector(server).pull(PullRequest())
    first = next(pages)
    server.hang_up_at = "UID"
    with pytest.raises(SourceUnavailableError, match="broke off"):
        list(pages)
    server.hang_up_at = ""
    assert len(named([first, *pulled(connector(server), cursor=first.cursor)])) == 450


def test_a_server_that_sends_too_much_is_stopped(server: ImapDouble) -> None:
    filled(server, 1)
    server.extra = 10_000_000_000
    with pytest.raises(SourceUnavailableError, match="at most"):
        pulled(connector(server))


def test_a_server_that_stops_talking_is_left(server: ImapDouble) -> None:
    filled(server, 1)
    server.extra = 10
    with pytest.raises(SourceUnavailableError):
        pulled(connector(server, seconds=0.2))


def test_a_server_that_drips_is_left(server: ImapDouble) -> None:
    filled(server, 1)
    pages = connector(server, seconds=0.3).pull(PullRequest())
    server.hang_up_at = ""
    server.drip = 0.02
    with pytest.raises(SourceUnavailableError):
        list(pages)
    assert not server.fetched()


@pytest.mark.parametrize("missing", ["UIDVALIDITY", "UIDNEXT"])
def test_a_server_without_lasting_numbers_is_reported(server: ImapDouble, missing: str) -> None:
    server.without = missing
    with pytest.raises(SourceShapeError, match=missing):
        pulled(connector(server))


def test_a_wrong_password_shows_in_the_health(server: ImapDouble) -> None:
    health = connector(server, password_secret="other").check()
    assert "refused to log" in health.reason


def test_a_busy_server_is_retried_later(server: ImapDouble) -> None:
    server.refuse_at = "LOGIN"
    with pytest.raises(SourceUnavailableError, match="not now"):
        pulled(connector(server))


def test_a_folder_that_is_not_there_shows_in_the_health(server: ImapDouble) -> None:
    assert "no folder 'Nope'" in connector(server, folders=["Nope"]).check().reason


def test_a_mailbox_that_answers_is_well(server: ImapDouble) -> None:
    assert connector(server).health_check()


def test_a_certificate_that_nobody_vouches_for_is_refused(server: ImapDouble) -> None:
    with pytest.raises(SourceRefusedError, match="trusted"):
        pulled(connector(server, ca_file=""))


def test_a_certificate_of_another_name_is_refused(server: ImapDouble) -> None:
    with pytest.raises(SourceRefusedError, match="trusted"):
        pulled(connector(server, host="mail.example.org", tools={"addresses": lambda host, port: ["127.0.0.1"]}))


def test_a_private_address_is_not_connected_to(server: ImapDouble) -> None:
    with pytest.raises(ForbiddenAddressError):
        pulled(connector(server, tools={"addresses": None}))
    assert not server.commands


def test_the_next_address_is_tried(server: ImapDouble) -> None:
    filled(server, 1)
    tools = {"addresses": lambda host, port: ["::1", "127.0.0.1"]}
    assert len(named(pulled(connector(server, tools=tools)))) == 1


@pytest.mark.parametrize("folders", [[], ["A\r\nA1 DELETE INBOX"]])
def test_wrong_folders_are_refused(server: ImapDouble, folders: list[str]) -> None:
    with pytest.raises(InvalidInputError, match="folders"):
        connector(server, folders=folders)


@pytest.mark.parametrize(
    ("name", "quoted"), [("INBOX", '"INBOX"'), ('a"b\\', '"a\\"b\\\\"'), ("R&D", '"R&-D"'), ("日本", '"&ZeVnLA-"')]
)
def test_names_of_folders_are_quoted(name: str, quoted: str) -> None:
    assert quoted_folder(name) == quoted
