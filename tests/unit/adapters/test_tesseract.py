"""OCR of pictures by the program `tesseract`; tests that need it are skipped where it isn't installed."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from opx.adapters.reading_tools import PROGRAM, TesseractOcr, is_installed
from opx.adapters.reading_tools import tesseract as found_tesseract
from opx.errors import InvalidInputError, StoreUnavailableError, UnparsableDocumentError
from opx.ports.models import ParsingTools
from opx.settings import Settings
from tests.support.binary_files import a_picture, a_scan, read

needs_tesseract = pytest.mark.skipif(not is_installed(), reason="tesseract is not installed")


def a_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    program = tmp_path / "tesseract"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@needs_tesseract
def test_the_text_of_a_picture_is_read() -> None:
    found = TesseractOcr().read(a_picture("Restart the broker", size=(700, 200)), media_type="image/png")
    assert found == "Restart the broker"


@needs_tesseract
def test_a_scanned_document_is_read() -> None:
    assert read(a_scan("Restart the broker"), "a.pdf", ParsingTools(ocr=TesseractOcr())).text == "Restart the broker\n"


@needs_tesseract
def test_bytes_that_are_no_picture_are_refused() -> None:
    with pytest.raises(UnparsableDocumentError, match="can't read the picture"):
        TesseractOcr().read(b"no picture", media_type="image/png")


@needs_tesseract
def test_a_language_without_data_is_named_with_what_to_do() -> None:
    with pytest.raises(StoreUnavailableError, match=r"no data for 'tlh'; install its data .* OPX_OCR_LANGUAGES"):
        TesseractOcr("tlh").read(a_picture("x"), media_type="image/png")


def test_a_page_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_program(monkeypatch, tmp_path, "exec /bin/sleep 20")
    with pytest.raises(UnparsableDocumentError, match=r"more than 0\.1 seconds"):
        TesseractOcr(seconds=0.1).read(a_picture("x"), media_type="image/png")


def test_ocr_is_unavailable_without_the_tesseract_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found_tesseract(Settings()) is None
    with pytest.raises(InvalidInputError, match="no such program; install it"):
        found_tesseract(Settings(ocr="tesseract"))


def test_a_program_that_disappeared_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreUnavailableError, match=f"{PROGRAM} is not installed"):
        TesseractOcr().read(a_picture("x"), media_type="image/png")
