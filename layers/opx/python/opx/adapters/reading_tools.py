"""The tools to read pictures with that every backend can have."""

from __future__ import annotations

from opx.errors import InvalidInputError
from opx.ports.reading import ImageDescriber, Ocr, ParsingLimits
from opx.ports.sources import Secrets
from opx.settings import Settings


def limits(settings: Settings) -> ParsingLimits:
    """What reading one file may take."""
    return ParsingLimits(
        seconds=settings.parse_seconds,
        memory_bytes=settings.parse_memory_bytes,
        unpacked_bytes=settings.parse_unpacked_bytes,
        pages=settings.parse_pages,
        images=settings.parse_images,
    )


def tesseract(settings: Settings) -> Ocr | None:
    """The program of this machine; None if it isn't there and needn't be. Raises `InvalidInputError` if it is asked for
    and missing."""
    from opx.adapters.tesseract import TesseractOcr, is_installed

    if is_installed():
        return TesseractOcr(settings.ocr_languages)
    if settings.ocr == "tesseract":
        raise InvalidInputError("OPX_OCR=tesseract, but there is no such program; install it (tesseract-ocr)")
    return None


def describer_at_url(settings: Settings, secrets: Secrets) -> ImageDescriber:
    """The model at `vision_url`. Raises `SecretNotFoundError`."""
    from opx.adapters.openai_images import OpenAiImageDescriber
    from opx.adapters.remote.connections import Connections

    key = secrets.get(settings.vision_secret) if settings.vision_secret else ""
    return OpenAiImageDescriber(settings.vision_url, settings.vision_model, key, Connections(read_seconds=120.0))
