"""Receipts in files."""

from __future__ import annotations

import json
from pathlib import Path

from opx.domain.results import Answer
from opx.errors import OpxError

MAX_BYTES = 5_000_000


def write_receipt(answer: Answer, path: Path) -> None:
    """Write the receipt of an answer. Raises `OpxError` if it has none, or if the file can't be written."""
    if not answer.receipt:
        raise OpxError(
            "this answer has no receipt: either the audit log is off (OPX_AUDIT_DAYS=0), or its record could not be written"
        )
    try:
        path.write_text(json.dumps(dict(answer.receipt), indent=2) + "\n", encoding="utf-8")
    except OSError as exc:
        raise OpxError(f"can't write the receipt to {path}: {exc.strerror or exc}") from exc


def receipt_text(path: Path) -> str:
    """What a file of a receipt holds. Raises `OpxError`."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise OpxError(f"{path} is no receipt: it is larger than any")
        return path.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as exc:
        raise OpxError(f"can't read {path}: {exc.strerror or exc}") from exc
