"""`ImageDescriber` on models of Bedrock that see, by the operation `Converse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from opx.adapters.aws.vendor_errors import error_code, told, translated_errors
from opx.adapters.image_prompts import INSTRUCTIONS, MAX_TOKENS, description, question
from opx.errors import StoreUnavailableError, UnparsableDocumentError

if TYPE_CHECKING:
    from mypy_boto3_bedrock_runtime import BedrockRuntimeClient

MAX_BYTES = 3_750_000
"""Of a picture (Amazon Bedrock API Reference, `Message`); its sides have 8,000 pixels at most."""
_FORMATS = {"image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp"}
_REFUSED = ("ModelErrorException", "ValidationException")


class BedrockImageDescriber:
    """Asks a model, named by its id or that of an inference profile."""

    def __init__(self, client: Callable[[], BedrockRuntimeClient], model: str) -> None:
        self._client = client
        self._model = model

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        if len(image) > MAX_BYTES or media_type not in _FORMATS:
            raise UnparsableDocumentError(f"a picture of {len(image):,} bytes ({media_type}) is not taken by Bedrock")
        try:
            with translated_errors(f"describe a picture by {self._model}"):
                answer = self._client().converse(**self._request(image, media_type, hint))
        except ClientError as exc:
            if error_code(exc) not in _REFUSED:
                raise
            raise UnparsableDocumentError(f"{self._model} refused a picture: {told(exc)}") from exc
        try:
            parts = answer["output"]["message"]["content"]
        except KeyError as exc:
            raise StoreUnavailableError(f"{self._model} gave an answer of an unknown form: {exc!r}") from exc
        return description("\n".join(part["text"] for part in parts if "text" in part))

    def _request(self, image: bytes, media_type: str, hint: str) -> dict[str, Any]:
        picture = {"image": {"format": _FORMATS[media_type], "source": {"bytes": image}}}
        return {
            "modelId": self._model,
            "system": [{"text": INSTRUCTIONS}],
            "messages": [{"role": "user", "content": [picture, {"text": question(hint)}]}],
            "inferenceConfig": {"maxTokens": MAX_TOKENS},
        }
