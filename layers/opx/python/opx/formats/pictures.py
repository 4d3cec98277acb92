"""Encodes pictures within the limits of all services that read them."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

from opx.errors import UnparsableDocumentError

MAX_SIDE = 3000
"""Pixels. Bedrock accepts 8,000 (Amazon Bedrock API Reference, Message) and Textract 10,000 (Set Quotas in Amazon
Textract); an A4 page at 250 dots an inch has this many."""
MAX_BYTES = 3_700_000
"""Bedrock accepts pictures of 3.75 MB, Textract 10 MB."""
MIN_SIDE = 48
"""Smaller ones are bullets, lines and icons."""
MAX_PIXELS = 100_000_000
_QUALITIES = (90, 75, 60)


@dataclass(frozen=True, slots=True)
class PortableImage:
    data: bytes
    media_type: str


def portable(data: bytes) -> PortableImage | None:
    """Converts a picture to PNG or JPEG within every limit; None if it is too small to show anything, or can't be read."""
    try:
        image = opened(data)
        return encoded(image) if min(image.size) >= MIN_SIDE else None
    except (UnparsableDocumentError, OSError, ValueError, SyntaxError):  # such as vector drawings of office programs
        return None


def encoded(image: Image.Image) -> PortableImage:
    """PNG if it is small enough, as screenshots and drawings are, else JPEG."""
    image = ImageOps.exif_transpose(image)
    image = image.convert("L" if image.mode in ("1", "L") else "RGB")
    image.thumbnail((MAX_SIDE, MAX_SIDE))
    data = _saved(image, "PNG", optimize=False)
    if len(data) <= MAX_BYTES:
        return PortableImage(data, "image/png")
    for quality in _QUALITIES:
        data = _saved(image, "JPEG", quality=quality)
        if len(data) <= MAX_BYTES:
            return PortableImage(data, "image/jpeg")
    image.thumbnail((MAX_SIDE // 2, MAX_SIDE // 2))
    return PortableImage(_saved(image, "JPEG", quality=60), "image/jpeg")


def _saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    target = io.BytesIO()
    image.save(target, kind, **options)
    return target.getvalue()


def opened(data: bytes) -> Image.Image:
    try:
        with warnings.catch_warnings(action="ignore"):
            image: Image.Image = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"))
    except UnidentifiedImageError as exc:
        raise UnparsableDocumentError("it is no picture of a known kind, or broken; save it as PNG") from exc
    except Image.DecompressionBombError as exc:
        raise UnparsableDocumentError("it has too many pixels; make it smaller") from exc
    if image.width * image.height > MAX_PIXELS:
        raise UnparsableDocumentError(f"it has {image.width * image.height:,} pixels; make it smaller")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    if image.mode in ("RGBA", "LA"):
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        return white
    return image
