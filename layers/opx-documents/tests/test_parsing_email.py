"""E-mail messages and their attachments."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from opx.ports.models import ParsingLimits, ParsingTools
from opx_documents.mail import body_markdown
from tests.support.binary_files import PdfWriter, a_picture, an_email, in_this_process, read, refused

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


def test_file_that_is_no_message_is_refused() -> None:
    assert "it is no e-mail message" in refused(b"just some words\n\nand more", "a.eml")


def test_a_mailbox_is_refused_with_the_source_that_reads_it() -> None:
    assert "source of kind `mailbox`" in refused(b"From a@b Tue\nSubject: x\n\nx\n", "a.mbox")


def test_quoted_message_comes_under_a_heading() -> None:
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


def in_parts(kind: str, *parts: tuple[str, str]) -> bytes:
    """A message of text parts, each given with its type."""
    within = "".join(f"--x\nContent-Type: {each}\n\n{text}\n" for each, text in parts)
    return f"Subject: a\nMIME-Version: 1.0\nContent-Type: {kind}; boundary=x\n\n{within}--x--\n".encode()


def test_a_footer_in_plain_text_does_not_hide_the_html_before_it() -> None:
    raw = in_parts("multipart/mixed", ("text/html", "<p>Promote the <b>replica</b>.</p>"), ("text/plain", "ops list"))
    assert read(raw, "a.eml").text == "Promote the **replica**.\n\nops list\n"


def test_alternatives_are_chosen_from_where_they_are_within_other_parts() -> None:
    inner = "--y\nContent-Type: text/plain\n\nsame\n--y\nContent-Type: text/html\n\n<p>same, rich</p>\n--y--"
    parts = (("multipart/alternative; boundary=y", inner), ("text/html", "<p>more</p>"))
    assert read(in_parts("multipart/mixed", *parts), "a.eml").text == "same\n\nmore\n"


def test_an_attachment_of_an_alternative_that_is_not_chosen_is_kept() -> None:
    inner = "--y\nContent-Type: text/html\n\n<p>rich</p>\n--y\nContent-Type: text/csv\n\na,b\n1,2\n--y--"
    parts = (("text/plain", "plain"), ("multipart/mixed; boundary=y", inner))
    text = read(in_parts("multipart/alternative", *parts), "a.eml").text
    assert text.startswith("plain\n\n## Attachment: attachment 1.csv")
    assert "rich" not in text


def test_a_text_that_only_refers_to_the_html_is_not_chosen() -> None:
    parts = (("text/plain", "Please view this in an HTML reader."), ("text/html", "<p>Drain n7.</p>"))
    assert read(in_parts("multipart/alternative", *parts), "a.eml").text == "Drain n7.\n"


def test_two_dashes_without_a_blank_are_no_mark_of_a_signature() -> None:
    assert "systemctl restart x" in body_markdown("Run this:\n--\nsystemctl restart x\n", "")


def test_the_fields_of_a_report_on_delivery_are_kept() -> None:
    status = "Reporting-MTA: dns; mx.example\n\nFinal-Recipient: rfc822; ann@example.org\nStatus: 5.1.1\n"
    parts = (("text/plain", "It could not be delivered."), ("message/delivery-status", status))
    text = read(in_parts("multipart/report", *parts), "a.eml").text
    assert text.startswith("It could not be delivered.\n\nReporting-MTA: dns; mx.example\n\nFinal-Recipient")
    assert "Status: 5.1.1" in text


@pytest.mark.parametrize("kind", ["message/delivery-status", "message/disposition-notification"])
def test_a_message_that_is_all_report_is_read(kind: str) -> None:
    assert "Status: 5.1.1" in read(f"Subject: a\nContent-Type: {kind}\n\nStatus: 5.1.1\n".encode(), "a.eml").text


CALENDAR = (
    "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Maintenance\\, db\n  1\nDTSTART;TZID=Europe/Berlin:20240105T013000\n"
    "DTEND:20240105T030000Z\nLOCATION:Room 2\nDESCRIPTION:Stop the jobs.\\nCall us.\n"
    "BEGIN:VALARM\nDESCRIPTION:Reminder\nEND:VALARM\nEND:VEVENT\nEND:VCALENDAR\n"
)
APPOINTMENT = (
    "- Appointment: Maintenance, db 1\n- Start: 2024-01-05 01:30 Europe/Berlin\n- End: 2024-01-05 03:00 UTC\n"
    "- Place: Room 2\n"
)


def test_appointments_are_read() -> None:
    raw = in_parts("multipart/alternative", ("text/plain", "Please come."), ("text/calendar; method=REQUEST", CALENDAR))
    assert read(raw, "a.eml").text == f"Please come.\n\n{APPOINTMENT}"


def test_an_appointment_without_a_body_includes_its_description() -> None:
    text = read(f"Subject: a\nContent-Type: text/calendar\n\n{CALENDAR}".encode(), "a.eml").text
    assert text == f"{APPOINTMENT}\nStop the jobs.\nCall us.\n"


def test_a_calendar_without_appointments_is_named() -> None:
    found = read(in_parts("multipart/mixed", ("text/plain", "x"), ("text/calendar", "BEGIN:VCALENDAR")), "a.eml")
    assert found.unread == ["the calendar in the message has no appointment that can be read"]


def test_html_is_read_in_the_charset_of_its_part_whatever_it_declares_itself() -> None:
    html = '<html><head><meta charset="iso-2022-jp"></head><body><p>Störung</p></body></html>'
    raw = f"Subject: a\nContent-Type: text/html; charset=latin-1\n\n{html}".encode("latin-1")
    assert read(raw, "a.eml").text == "Störung\n"


@pytest.mark.parametrize(
    "line",
    [
        "The pool was enlarged at noon, and nobody noticed.",
        "昨日の障害について、原因はプールの枯渇でした。",
        "a line that is far longer than those in which people write down who they are, where they work and how to call them",
    ],
)
def test_text_after_the_mark_of_a_signature_stays_if_it_reads_like_text(line: str) -> None:
    assert line in body_markdown(f"Restart it.\n-- \n{line}\n", "")


def test_lines_of_a_signature_are_short() -> None:
    signature = "Ada Lovelace\nHead of Operations\nTel. +44 20 7946 0000\nhttps://example.org/ada\n"
    assert body_markdown(f"Restart it.\n-- \n{signature}", "") == "Restart it."
