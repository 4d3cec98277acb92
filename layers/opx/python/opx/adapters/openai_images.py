"""`ImageDescriber` on any service that understands OpenAI's Chat Completions with pictures, such as a model of one's own.

The form of requests and replies: OpenAI API Reference, "Create chat completion" and "Images and vision".
"""

from __future__ import annotations

import base64
import json
from typing import Any

from opx.adapters.image_prompts import INSTRUCTIONS, MAX_TOKENS, description, question
from opx.adapters.openai_chat import PASSING, REFUSING_CALLER, ChatCompletions
from opx.adapters.remote.connections import Connections
from opx.errors import StoreUnavailableError, UnparsableDocumentError


class OpenAiImageDescriber:
    """Asks `model` at `url` (`https://host/v1`), with a key if the service wants one. Thread-safe."""

    def __init__(self, url: str, model: str, key: str, connections: Connections) -> None:
        self._completions = ChatCompletions(url, lambda: key, connections)
        self._model = model

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        reply = self._completions.post(self._request(image, media_type, hint))
        if reply.status != 200:
            raise self._refused(reply.status)
        return description(self._text(reply.data))

    def _request(self, image: bytes, media_type: str, hint: str) -> dict[str, Any]:
        address = f"data:{media_type};base64,{base64.b64encode(image).decode()}"
        content = [{"type": "text", "text": question(hint)}, {"type": "image_url", "image_url": {"url": address}}]
        messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": content}]
        return {"model": self._model, "messages": messages, "max_tokens": MAX_TOKENS}

    def _refused(self, status: int) -> Exception:
        told = f"the model {self._model} at {self._completions.url} answered with status {status}"
        if status in REFUSING_CALLER:
            hint = "check OPX_VISION_URL, OPX_VISION_MODEL and the secret that OPX_VISION_SECRET names"
            return StoreUnavailableError(f"{told}; {hint}")
        if status >= 500 or status in PASSING:
            return StoreUnavailableError(told)
        return UnparsableDocumentError(f"{told} to a picture")

    def _text(self, data: bytes) -> str:
        try:
            return str(json.loads(data)["choices"][0]["message"]["content"] or "")
        except (ValueError, KeyError, IndexError, TypeError) as exc:
            raise StoreUnavailableError(f"{self._completions.url} gave an answer of an unknown form: {exc!r}") from exc
