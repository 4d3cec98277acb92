"""Creates the picture tools that every backend can use: Tesseract's OCR, and a description model at a URL."""

from __future__ import annotations

import shutil
import subprocess

from opx.errors import InvalidInputError, StoreUnavailableError, UnparsableDocumentError
from opx.ports.models import ImageDescriber, Ocr, ParsingLimits
from opx.ports.sources import Secrets
from opx.settings import Settings

PROGRAM = "tesseract"
DEFAULT_LANGUAGES = "eng"
TIMEOUT_SECONDS = 120.0
"""Time limit per page; one takes a few seconds."""
_LANGUAGE_MISSING = "Failed loading language"
_ENVIRONMENT = {"OMP_THREAD_LIMIT": "1"}
"""Tesseract's threads cost more than they gain (Tesseract documentation, FAQ, on OMP_THREAD_LIMIT)."""


def is_installed() -> bool:
    """True if the program is installed."""
    return shutil.which(PROGRAM) is not None


class TesseractOcr:
    """Runs the program once per page. `languages` are codes of installed data, joined by `+` (`eng+deu`)."""

    def __init__(self, languages: str = DEFAULT_LANGUAGES, *, seconds: float = TIMEOUT_SECONDS) -> None:
        self._languages = languages
        self._seconds = seconds

    def read(self, image: bytes, *, media_type: str) -> str:  # noqa: ARG002 - tesseract looks at the bytes
        program = shutil.which(PROGRAM)
        if program is None:
            raise StoreUnavailableError("tesseract is not installed; install it, or set OPX_OCR=off")
        command = [program, "stdin", "stdout", "-l", self._languages, "--psm", "3"]
        try:
            done = subprocess.run(  # noqa: S603 - nothing in the command comes from a document
                command, input=image, capture_output=True, timeout=self._seconds, env=_ENVIRONMENT, check=False
            )
        except subprocess.TimeoutExpired as exc:
            raise UnparsableDocumentError(f"tesseract took more than {self._seconds:g} seconds for a page") from exc
        if done.returncode:
            raise self._failure(done.stderr.decode("utf-8", "replace"))
        return done.stdout.decode("utf-8", "replace").replace("\f", "").strip()

    def _failure(self, stderr: str) -> Exception:
        if _LANGUAGE_MISSING in stderr:
            hint = "install its data (apt-get install tesseract-ocr-<language>), or set OPX_OCR_LANGUAGES"
            return StoreUnavailableError(f"tesseract has no data for {self._languages!r}; {hint}")
        return UnparsableDocumentError("tesseract can't read the picture")


def limits(settings: Settings) -> ParsingLimits:
    """Limits for reading one file."""
    return ParsingLimits(
        seconds=settings.parse_seconds,
        memory_bytes=settings.parse_memory_bytes,
        unpacked_bytes=settings.parse_unpacked_bytes,
        pages=settings.parse_pages,
        images=settings.parse_images,
    )


def tesseract(settings: Settings) -> Ocr | None:
    """The program of this machine; None if it is missing and not required. Raises `InvalidInputError` if it is required
    and missing."""
    if is_installed():
        return TesseractOcr(settings.ocr_languages)
    if settings.ocr == "tesseract":
        raise InvalidInputError("OPX_OCR=tesseract, but there is no such program; install it (tesseract-ocr)")
    return None


def describer_at_url(settings: Settings, secrets: Secrets) -> ImageDescriber:
    """The model at `vision_url`. Raises `SecretNotFoundError`."""
    from opx.adapters.connections import Connections
    from opx.adapters.openai_chat import OpenAiImageDescriber

    key = secrets.get(settings.vision_secret) if settings.vision_secret else ""
    return OpenAiImageDescriber(settings.vision_url, settings.vision_model, key, Connections(read_seconds=120.0))
