"""Reads a picture that is a document."""

from __future__ import annotations

from pathlib import Path

from opx.formats.pictures import encoded, opened
from opx.formats.sandbox.output import Output, ReadingJob


def read_image(path: Path, job: ReadingJob, output: Output) -> None:  # noqa: ARG001 - every reader is called so
    """Passes the picture on; models describe it later."""
    image = opened(path.read_bytes())
    frames = getattr(image, "n_frames", 1)
    made = encoded(image)
    output.image(made.data, made.media_type)
    if frames > 1:
        output.unread(f"only the first of its {frames} pictures is read")
    output.finish()
