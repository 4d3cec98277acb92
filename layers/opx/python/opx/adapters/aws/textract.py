"""`Ocr` on Amazon Textract."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from opx.adapters.aws.vendor_errors import error_code, translated_errors
from opx.errors import UnparsableDocumentError

if TYPE_CHECKING:
    from mypy_boto3_textract import TextractClient

MAX_BYTES = 10 * 1024 * 1024
"""Of a PNG or JPEG (Amazon Textract Developer Guide, "Set Quotas in Amazon Textract")."""
_REFUSED = frozenset(
    {"BadDocumentException", "DocumentTooLargeException", "InvalidParameterException", "UnsupportedDocumentException"}
)


class TextractOcr:
    """Detects the text of one page in one call, `DetectDocumentText`, which keeps nothing.

    Its lines come from the top down; those of columns beside each other alternate.
    """

    def __init__(self, client: Callable[[], TextractClient]) -> None:
        """`client` is asked for when the first page is read: most documents have none for it."""
        self._client = client

    def read(self, image: bytes, *, media_type: str) -> str:  # noqa: ARG002 - Textract looks at the bytes
        if len(image) > MAX_BYTES:
            raise UnparsableDocumentError(f"the picture has {len(image):,} bytes, Textract takes {MAX_BYTES:,}")
        try:
            with translated_errors("read a page by Amazon Textract (OPX_OCR=off does without)"):
                found = self._client().detect_document_text(Document={"Bytes": image})
        except ClientError as exc:
            if error_code(exc) not in _REFUSED:
                raise
            raise UnparsableDocumentError(f"Textract refused the picture: {error_code(exc)}") from exc
        return "\n".join(block.get("Text", "") for block in found["Blocks"] if block.get("BlockType") == "LINE")
