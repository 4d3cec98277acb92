"""E-mail messages and their attachments."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from opx.extraction.mail_text import body_markdown
from opx.ports.reading import ParsingLimits, ParsingTools
from tests.unit.binary_files import PdfWriter, a_picture, an_email, in_this_process, read, refused

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


def nested(depth: int) -> EmailMessage:
    message = an_email(f"level {depth}", subject=f"Level {depth}")
    if depth < 6:
        message.add_attachment(nested(depth + 1))
    return message


def test_headers_become_title_and_metadata() -> None:
    found = read(an_email().as_bytes(), "a.eml")
    assert found.title == "Broker down"
    assert found.metadata["author"] == "Ada Ops <ada@example.com>"
    assert found.metadata["created_at"] == "2025-02-04T10:30:00+01:00"


def test_plain_text_is_preferred() -> None:
    assert read(an_email("plain", html="<p>rich</p>").as_bytes(), "a.eml").text == "plain\n"


def test_html_is_converted_where_there_is_no_plain_text() -> None:
    html = "<h2>Broker</h2><p>It is <b>down</b>.</p><ul><li>restart</li></ul>"
    assert read(an_email("", html=html).as_bytes(), "a.eml").text == "## Broker\n\nIt is **down**.\n\n- restart\n"


def test_attachments_are_sections_with_their_headings_below() -> None:
    message = an_email()
    message.add_attachment("# Steps\n\nRestart it.\n", filename="steps.md")
    pdf = PdfWriter(title="Limits").line(50, 700, "30 seconds").data()
    message.add_attachment(pdf, "application", "pdf", filename="limits.pdf")
    assert read(message.as_bytes(), "a.eml").text == (
        "The broker is down.\n\n## Attachment: steps.md\n\n### Steps\n\nRestart it.\n\n"
        "## Attachment: limits.pdf\n\n- Title: Limits\n- Date: 2000-01-01T00:00:00+00:00\n\n"
        "30 seconds\n"
    )


def test_attachments_that_can_not_be_read_are_named_with_the_reason() -> None:
    message = an_email()
    message.add_attachment(b"\0\1\2", "application", "octet-stream", filename="core.bin")
    found = read(message.as_bytes(), "a.eml")
    assert found.unread[0].startswith("attachment core.bin: ")
    assert found.text == "The broker is down.\n"


def test_remarks_about_an_attachment_name_it() -> None:
    message = an_email()
    message.add_attachment(a_picture("x"), "image", "png", filename="graph.png")
    assert read(message.as_bytes(), "a.eml").undescribed[0].startswith("graph.png: a picture is not described")


def test_messages_within_messages_are_read_to_a_bounded_depth() -> None:
    found = read(nested(1).as_bytes(), "a.eml", ParsingTools(limits=ParsingLimits(attachments=2)))
    assert "level 3" in found.text
    assert "level 4" not in found.text
    assert found.unread == ["Level 2.eml: Level 3.eml: Level 4.eml is not read: attachments are nested too deeply"]


def test_a_message_with_nothing_but_a_subject_is_its_subject() -> None:
    message = an_email(subject="Disk of db1 is full")
    message.set_content("")
    assert read(message.as_bytes(), "a.eml").text == "Disk of db1 is full\n"


@pytest.mark.parametrize(
    "raw",
    [
        b"Subject: =?utf-8?q?broken\nFrom: <<<\nDate: never\nContent-Type: multipart/mixed\n\nthe text\n",
        b"Subject: a\nContent-Type: text/plain; charset=no-such\n\nthe text\n",
        b"Subject: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\nContent-Type: text/plain\n\nthe text\n",
        b"Subject: a\nContent-Type: text/plain\nContent-Transfer-Encoding: nonsense\n\nthe text\n",
        b"From: a\nTo: b\nContent-Type: nonsense\n\nthe text\xff\n",
        b"Subject: a\nMessage-ID: <\xe6[a@b>\nTo: (((\nFrom: a@[\nContent-Disposition: =\xff;\n\nthe text\n",
    ],
)
def test_malformed_messages_are_read_as_far_as_they_go(raw: bytes) -> None:
    assert "the text" in read(raw, "a.eml").text


def test_what_is_no_message_is_refused() -> None:
    assert "it is no e-mail message" in refused(b"just some words\n\nand more", "a.eml")


def test_a_mailbox_is_refused_with_the_source_that_reads_it() -> None:
    assert "source of kind `mailbox`" in refused(b"From a@b Tue\nSubject: x\n\nx\n", "a.mbox")


def test_what_the_message_answers_comes_under_a_heading() -> None:
    text = "Restart it.\n\nOn Tue, 4 Feb 2025, Ada wrote:\n> It is down.\n> What now?\n"
    assert body_markdown(text, "") == (
        "Restart it.\n\n## Earlier messages\n\nOn Tue, 4 Feb 2025, Ada wrote:\n\nIt is down.\nWhat now?"
    )


def test_quotations_between_answers_stay() -> None:
    assert "It is down." in body_markdown("> It is down.\nRestart it.\n> And then?\nCall me.\n", "")
    assert "Earlier" not in body_markdown("> It is down.\nRestart it.\n> And then?\nCall me.\n", "")


def test_a_signature_is_left_out_and_a_long_text_after_dashes_is_not() -> None:
    assert body_markdown("Restart it.\n-- \nAda\nOps\n", "") == "Restart it."
    assert "line 39" in body_markdown("Text.\n-- \n" + "".join(f"line {n}\n" for n in range(40)), "")


def test_a_broken_message_within_a_message_does_not_keep_the_rest_from_being_read() -> None:
    inner = b"Subject: \xe6nner\n\ninner text\n"
    raw = b"Subject: a\nContent-Type: multipart/mixed; boundary=x\n\n--x\n\nthe text\n--x\n"
    found = read(raw + b"Content-Type: message/rfc822\n\n" + inner + b"--x--\n", "a.eml")
    assert "the text" in found.text
    assert "inner text" in found.text
