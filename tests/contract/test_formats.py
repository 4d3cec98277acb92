"""Every format, the built-in ones and those of distributions, passes the contract of formats."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from opx.errors import UnparsableDocumentError
from opx.formats import registry
from opx_testing.format import FormatContract, Sample, read
from tests.support.binary_files import (
    PdfWriter,
    a_docx,
    a_picture,
    a_presentation,
    a_workbook,
    an_email,
    in_this_process,
    w_paragraph,
)
from tests.support.parsing_support import a_category

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


MAPPED = a_category(title="$.name", content="$.steps[*]")


def a_mail_with_a_page() -> EmailMessage:
    message = an_email(html="<p>The <b>broker</b> is down.</p>")
    message.add_attachment(b"<h1>Plan</h1><p>Fail over</p>", maintype="text", subtype="html", filename="plan.html")
    return message


SAMPLES = (
    Sample("markdown", "a.md", b"---\ntitle: T\ntags: [a]\n---\n# Disk full\n\nRotate the logs.\n", ("Disk", "Rotate")),
    Sample("plain", "a.txt", "Gr\u00f6\u00dfe\r\nRotate the logs.".encode(), ("Gr\u00f6\u00dfe\n", "Rotate")),
    Sample(
        "html", "a.html", b"<html><title>T</title><h1>Disk</h1><p>Rotate &amp; delete</p></html>", ("Disk", "Rotate")
    ),
    Sample("json", "a.json", b'{"name": "Disk", "steps": ["Rotate", "Delete"]}', ("Rotate", "Delete"), MAPPED),
    Sample("jsonl", "a.jsonl", b'{"a": "Disk"}\n{"b": "Rotate"}\n', ("Disk", "Rotate")),
    Sample(
        "csv", "a.csv", b'host,note\nweb-01,"full, again"\nweb-02,"two\nlines"\n', ("web-01", "full, again", "web-02")
    ),
    Sample("yaml", "a.yaml", b"host: &x {disk: full}\nagain: *x\nsteps:\n  - Rotate\n", ("disk", "Rotate")),
    Sample("config", "a.toml", b'[disk]\nlogs = "rotate"\n', ("[disk]", "rotate")),
    Sample("rst", "a.rst", b"Disk\n====\n\n.. note:: Rotate\n\n:ref:`x` and ``df``\n", ("Disk", "Rotate", "`df`")),
    Sample("asciidoc", "a.adoc", b"= Disk\n\n== Fix\n\n. Rotate\n\n----\ndf -h\n----\n", ("Fix", "Rotate", "df -h")),
    Sample(
        "code",
        "a.py",
        b'class Disk:\n    """Full."""\n\n    def rotate(self): ...\n',
        ("Disk", "rotate"),
    ),
    Sample("code", "a.tf", b'resource "aws_instance" "a" {\n  ami = var.ami\n}\n', ("aws_instance", "var.ami")),
    Sample("pdf", "a.pdf", PdfWriter(title="T").line(50, 700, "Rotate the logs.").data(), ("Rotate the logs.",)),
    Sample(
        "docx", "a.docx", a_docx(w_paragraph("Disk full", "Heading1"), w_paragraph("Rotate")), ("# Disk full", "Rotate")
    ),
    Sample("pptx", "a.pptx", a_presentation(), ("What happened", "primary", "Mention the pager.")),
    Sample("xlsx", "a.xlsx", a_workbook(Hosts=[["Host", "Role"], ["db1", "primary"]]), ("Hosts", "db1", "primary")),
    Sample("email", "a.eml", a_mail_with_a_page().as_bytes(), ("broker", "Plan", "Fail over")),
    Sample("image", "a.png", a_picture("Disk"), ("Picture: a",)),
)
REFUSED = (
    Sample("msg", "a.msg", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000), ()),
    Sample("old_office", "a.doc", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(1000), ()),
    Sample("mailbox", "a.mbox", b"From a@b Tue\nSubject: x\n\nx\n", ()),
)


def test_each_format_has_a_sample() -> None:
    assert {sample.form for sample in (*SAMPLES, *REFUSED)} == set(registry._formats())


class TestFormats(FormatContract):
    @pytest.fixture(params=SAMPLES, ids=str)
    def sample(self, request: pytest.FixtureRequest) -> Sample:
        found: Sample = request.param
        return found


class TestRefusedFormats(FormatContract):
    """Files of which nothing is read, and broken ones."""

    @pytest.fixture(params=REFUSED, ids=str)
    def sample(self, request: pytest.FixtureRequest) -> Sample:
        found: Sample = request.param
        return found

    def test_a_sample_gives_its_text(self, sample: Sample) -> None:
        with pytest.raises(UnparsableDocumentError, match=sample.name):
            read(sample.data, sample)
