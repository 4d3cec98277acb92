"""`ImageDescriber` on any service that understands OpenAI's Chat Completions with pictures, such as a model of one's own.

The form of requests and replies: OpenAI API Reference, "Create chat completion" and "Images and vision".
"""

from __future__ import annotations

import base64
import json
from typing import Any

from opx.adapters.image_prompts import INSTRUCTIONS, MAX_TOKENS, description, question
from opx.adapters.remote.connections import Connections
from opx.errors import StoreUnavailableError, UnparsableDocumentError

_PASSING = (408, 409, 429)
_REFUSING_CALLER = (401, 403, 404)


class OpenAiImageDescriber:
    """Asks `model` at `url` (`https://host/v1`), with a key if the service wants one. Thread-safe."""

    def __init__(self, url: str, model: str, key: str, connections: Connections) -> None:
        self._url = url.rstrip("/") + "/chat/completions"
        self._model = model
        self._key = key
        self._connections = connections

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        body = json.dumps(self._request(image, media_type, hint)).encode()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        reply = self._connections.request("POST", self._url, headers, body)
        if reply.status != 200:
            raise self._refused(reply.status)
        return description(self._text(reply.data))

    def _request(self, image: bytes, media_type: str, hint: str) -> dict[str, Any]:
        address = f"data:{media_type};base64,{base64.b64encode(image).decode()}"
        content = [{"type": "text", "text": question(hint)}, {"type": "image_url", "image_url": {"url": address}}]
        messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": content}]
        return {"model": self._model, "messages": messages, "max_tokens": MAX_TOKENS}

    def _refused(self, status: int) -> Exception:
        told = f"the model {self._model} at {self._url} answered with status {status}"
        if status in _REFUSING_CALLER:
            hint = "check OPX_VISION_URL, OPX_VISION_MODEL and the secret that OPX_VISION_SECRET names"
            return StoreUnavailableError(f"{told}; {hint}")
        if status >= 500 or status in _PASSING:
            return StoreUnavailableError(told)
        return UnparsableDocumentError(f"{told} to a picture")

    def _text(self, data: bytes) -> str:
        try:
            return str(json.loads(data)["choices"][0]["message"]["content"] or "")
        except (ValueError, KeyError, IndexError, TypeError) as exc:
            raise StoreUnavailableError(f"{self._url} gave an answer of an unknown form: {exc!r}") from exc
