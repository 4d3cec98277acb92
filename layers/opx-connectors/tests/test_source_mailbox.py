"""Messages in files."""

from __future__ import annotations

from pathlib import Path

import pytest

from opx.domain.sources import PullRequest
from opx.errors import InvalidInputError, SourceRefusedError
from opx_connectors.mail import mailbox_files
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each

MESSAGE = b"From: Ann <ann@example.org>\nSubject: %s\nDate: Tue, 02 Jan 2024 10:00:00 +0000\n\nHello\n"


def mbox(*subjects: str) -> bytes:
    return b"".join(b"From ann Tue Jan  2 10:00:00 2024\n" + MESSAGE % each.encode() + b"\n" for each in subjects)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mailbox_files, "PAGE_MESSAGES", 3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.eml", "a.EML", "deep/er/c.eml", "deep/d.eml", "notes.txt", "a-b/e.eml"):
        file = tmp_path / "mail" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(MESSAGE % name.encode())
    return tmp_path / "mail"


def test_a_folder_gives_its_messages(folder: Path) -> None:
    pages = pulled(a_connector("mailbox", path=str(folder)))
    found = documents_of(pages)
    assert set(found) == {"b.eml", "a.EML", "deep/er/c.eml", "deep/d.eml", "a-b/e.eml"}
    assert found["deep/d.eml"].content == MESSAGE % b"deep/d.eml"
    assert found["deep/d.eml"].metadata["title"] == "deep/d.eml"
    assert [page.complete for page in pages] == [False, True]


def test_a_folder_is_gone_on_with(folder: Path) -> None:
    for rest, both in resumed_after_each(a_connector("mailbox", path=str(folder))):
        assert len(both) == 5
        assert len(named(rest)) == 2


def test_a_message_that_was_deleted_meanwhile_hides_no_other(folder: Path) -> None:
    pages = a_connector("mailbox", path=str(folder)).pull(PullRequest())
    first = next(pages)
    (folder / "a.EML").unlink()
    rest = pulled(a_connector("mailbox", path=str(folder)), cursor=first.cursor)
    assert len(named([first, *rest])) == 5


def test_links_are_not_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.eml").write_bytes(MESSAGE % b"secret")
    (folder / "link.eml").symlink_to(tmp_path / "secret.eml")
    (folder / "linked").symlink_to(tmp_path)
    assert not [
        key for key in named(pulled(a_connector("mailbox", path=str(folder)))) if "link" in key or "secret" in key
    ]


def test_a_message_keeps_its_name_when_it_is_read(tmp_path: Path) -> None:
    for part in ("cur", "new", "tmp"):
        (tmp_path / part).mkdir()
    (tmp_path / "new" / "1700.host").write_bytes(MESSAGE % b"one")
    (tmp_path / "cur" / "1600.host:2,S").write_bytes(MESSAGE % b"two")
    before = named(pulled(a_connector("mailbox", path=str(tmp_path))))
    (tmp_path / "new" / "1700.host").rename(tmp_path / "cur" / "1700.host:2,RS")
    assert before == named(pulled(a_connector("mailbox", path=str(tmp_path)))) == {"1600.host.eml", "1700.host.eml"}


def test_an_mbox_gives_its_messages(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(mbox("one", "two").replace(b"Hello", b"Hello\n>From here\n>>From there\nFrom now on"))
    found = documents_of(pulled(a_connector("mailbox", path=str(path))))
    assert sorted(str(each.metadata["title"]) for each in found.values()) == ["one", "two"]
    assert all(b"Hello\nFrom here\n>From there\nFrom now on\n" in each.content for each in found.values())
    assert all(key.endswith(".eml") for key in found)


def test_an_mbox_is_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(mbox(*map(str, range(10))))
    for rest, both in resumed_after_each(a_connector("mailbox", path=str(tmp_path / "archive"))):
        assert len(both) == 10
        assert len(named(rest)) < 10


def test_names_of_an_mbox_stay_when_messages_before_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "archive"
    path.write_bytes(mbox("one", "two"))
    before = named(pulled(a_connector("mailbox", path=str(path))))
    path.write_bytes(mbox("two"))
    after = named(pulled(a_connector("mailbox", path=str(path))))
    assert after < before


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello\nworld\n"])
def test_a_file_without_messages_gives_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "archive").write_bytes(content)
    assert not named(pulled(a_connector("mailbox", path=str(tmp_path / "archive"))))


def test_messages_that_are_too_large_are_refused(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "archive").write_bytes(mbox("one", "x" * 500))
    for path in (tmp_path / "archive", folder):
        (folder / "large.eml").write_bytes(MESSAGE % (b"x" * 500))
        pages = pulled(a_connector("mailbox", path=str(path), max_message_bytes=400))
        assert [each.reason for page in pages for each in page.refused] == ["larger than 400 bytes (max_message_bytes)"]


def test_an_invalid_message_is_refused(folder: Path) -> None:
    (folder / "empty.eml").write_bytes(b"")
    pages = pulled(a_connector("mailbox", path=str(folder)))
    assert [each.key for page in pages for each in page.refused] == ["empty.eml"]


def test_a_path_that_is_not_there_shows_in_the_health(tmp_path: Path) -> None:
    assert "there is no file" in a_connector("mailbox", path=str(tmp_path / "nope")).check().reason
    with pytest.raises(SourceRefusedError):
        pulled(a_connector("mailbox", path=str(tmp_path / "nope")))


def test_a_path_must_be_absolute() -> None:
    with pytest.raises(InvalidInputError, match="absolute"):
        a_connector("mailbox", path="mail")


@pytest.mark.parametrize(
    ("subject", "title"),
    [
        ("Größe".encode(), "Größe"),
        (b"Gr\xf6\xdfe", "Gr\ufffd\ufffde"),
        (b"=?utf-8?b?R3LDtsOfZQ==?=", "Größe"),
        (b"=?no-such?q?x?=", "=?no-such?q?x?="),
        (b"", "(no subject)"),
    ],
)
def test_subjects_are_decoded_as_far_as_they_can_be(tmp_path: Path, subject: bytes, title: str) -> None:
    (tmp_path / "a.eml").write_bytes(MESSAGE % subject)
    assert documents_of(pulled(a_connector("mailbox", path=str(tmp_path))))["a.eml"].metadata["title"] == title
