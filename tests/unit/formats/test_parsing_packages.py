"""Refusals before a library opens a file: archives that unpack to too much, and XML that declares entities."""

from __future__ import annotations

import io
import zipfile
import zlib

import pytest

from opx.ports.models import ParsingLimits, ParsingTools
from tests.support.binary_files import a_docx, a_picture, a_zip, an_email, in_this_process, read, refused, w_paragraph

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


def test_an_archive_that_states_too_large_a_size_is_refused_unopened() -> None:
    data = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(3_000_000)})
    limits = ParsingLimits(unpacked_bytes=2_000_000)
    assert "unpacks to more than 2,000,000 bytes" in refused(data, "a.docx", ParsingTools(limits=limits))


def test_an_archive_that_states_a_smaller_size_than_it_has_is_refused() -> None:
    data = bytearray(a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(3_000_000)}))
    with zipfile.ZipFile(io.BytesIO(data)) as package:
        real = package.getinfo("word/media/a.bin").file_size.to_bytes(4, "little")
    assert bytes(data).count(real) >= 2
    lying = bytes(data).replace(real, (100).to_bytes(4, "little"))
    assert "it is broken" in refused(lying, "a.docx")


def test_a_part_that_unpacks_to_hundreds_of_times_its_size_is_refused() -> None:
    data = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(20_000_000)})
    assert "as in a ZIP bomb" in refused(data, "a.docx")


def test_an_archive_of_very_many_parts_is_refused() -> None:
    data = a_zip({f"{number}.xml": "" for number in range(10_001)}, zipfile.ZIP_STORED)
    assert "it has 10,001 parts" in refused(data, "a.xlsx")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_that_declares_entities_is_refused(encoding: str) -> None:
    bomb = f'<?xml version="1.0" encoding="{encoding}"?><!DOCTYPE x [<!ENTITY a "aaaa">]><x>&a;</x>'
    data = a_docx(w_paragraph("x"), extra={"word/header1.xml": bomb.encode(encoding)})
    assert "its XML declares entities" in refused(data, "a.docx")


def test_xml_that_reaches_out_to_files_is_refused() -> None:
    outside = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><x>&a;</x>'
    assert "its XML declares entities" in refused(a_docx(extra={"word/document.xml": outside}), "a.docx")


def test_a_picture_of_too_many_pixels_is_refused() -> None:
    data = bytearray(a_picture())
    data[16:24] = (20_000).to_bytes(4, "big") + (6_000).to_bytes(4, "big")  # PNG: width and height, then their CRC
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    assert "pixels" in refused(bytes(data), "a.png")


def test_a_process_can_not_read_more_than_its_archive_limits_through_an_attachment() -> None:
    message = an_email()
    bomb = a_docx(w_paragraph("x"), extra={"word/media/a.bin": bytes(20_000_000)})
    message.add_attachment(bomb, "application", "octet-stream", filename="a.docx")
    found = read(message.as_bytes(), "a.eml")
    assert "ZIP bomb" in found.unread[0]
    assert "The broker is down." in found.text
