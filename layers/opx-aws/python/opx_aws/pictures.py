"""Reads pictures on AWS: extracts text by Amazon Textract, describes them by models of Bedrock."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.adapters.json_chat import INSTRUCTIONS, MAX_DESCRIPTION_TOKENS, description, question
from opx.errors import StoreUnavailableError, UnparsableDocumentError
from opx_aws.vendor_errors import error_code, safe_message, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient
    from mypy_boto3_textract import TextractClient

MAX_PAGE_BYTES = 10 * 1024 * 1024
"""Bytes of a PNG or JPEG (Amazon Textract Developer Guide, "Set Quotas in Amazon Textract")."""
_REFUSED_PAGES = frozenset(
    {"BadDocumentException", "DocumentTooLargeException", "InvalidParameterException", "UnsupportedDocumentException"}
)


class TextractOcr:
    """Detects the text of one page in one call, `DetectDocumentText`, which stores nothing.

    Its lines come from the top down; those of columns beside each other alternate.
    """

    def __init__(self, client: Callable[[], TextractClient]) -> None:
        """`client` is called when the first page is read: most documents have none for OCR."""
        self._client = client

    def read(self, image: bytes, *, media_type: str) -> str:  # noqa: ARG002 - Textract looks at the bytes
        if len(image) > MAX_PAGE_BYTES:
            raise UnparsableDocumentError(f"the picture has {len(image):,} bytes, Textract takes {MAX_PAGE_BYTES:,}")
        try:
            with translated_errors("read a page by Amazon Textract (OPX_OCR=off does without)"):
                found = self._client().detect_document_text(Document={"Bytes": image})
        except ClientError as exc:
            if error_code(exc) not in _REFUSED_PAGES:
                raise
            raise UnparsableDocumentError(f"Textract refused the picture: {error_code(exc)}") from exc
        return "\n".join(block.get("Text", "") for block in found["Blocks"] if block.get("BlockType") == "LINE")


MAX_PICTURE_BYTES = 3_750_000
"""Bytes of a picture (Amazon Bedrock API Reference, `Message`); its sides have 8,000 pixels at most."""
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_REFUSED_PICTURES = ("ModelErrorException", "ValidationException")


class BedrockImageDescriber:
    """Describes pictures by a model, named by its id or that of an inference profile."""

    def __init__(self, client: Callable[[], BedrockRuntimeClient], model: str) -> None:
        self._client = client
        self._model = model

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        if len(image) > MAX_PICTURE_BYTES or media_type not in _FORMATS:
            raise UnparsableDocumentError(f"Bedrock doesn't accept a picture of {len(image):,} bytes ({media_type})")
        try:
            with translated_errors(f"describe a picture by {self._model}"):
                answer = self._client().converse(**self._request(image, media_type, hint))
        except ClientError as exc:
            if error_code(exc) not in _REFUSED_PICTURES:
                raise
            raise UnparsableDocumentError(f"{self._model} refused a picture: {safe_message(exc)}") from exc
        try:
            parts = answer["output"]["message"]["content"]
        except KeyError as exc:
            raise StoreUnavailableError(f"{self._model} returned a reply of an unknown form: {exc!r}") from exc
        return description("\n".join(part["text"] for part in parts if "text" in part))

    def _request(self, image: bytes, media_type: str, hint: str) -> dict[str, Any]:
        picture = {"image": {"format": _FORMATS[media_type], "source": {"bytes": image}}}
        return {
            "modelId": self._model,
            "system": [{"text": INSTRUCTIONS}],
            "messages": [{"role": "user", "content": [picture, {"text": question(hint)}]}],
            "inferenceConfig": {"maxTokens": MAX_DESCRIPTION_TOKENS},
        }
