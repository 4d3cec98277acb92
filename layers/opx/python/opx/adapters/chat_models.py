"""The chat models that every backend can have."""

from __future__ import annotations

from opx.ports.models import ChatModel
from opx.ports.sources import Secrets
from opx.settings import Settings

READ_SECONDS = 60.0
"""After which a connection is given up that nobody waits for any more: a request has a time limit of its own."""


def chat_at_url(settings: Settings, secrets: Secrets, model: str) -> ChatModel:
    """The model of this name at `chat_url`. Its key is read when it is asked."""
    from opx.adapters.json_chat import JsonChat
    from opx.adapters.openai_chat import OpenAiChatService
    from opx.adapters.remote.connections import Connections

    def key() -> str:
        return secrets.get(settings.chat_secret) if settings.chat_secret else ""

    return JsonChat(OpenAiChatService(settings.chat_url, model, key, Connections(read_seconds=READ_SECONDS)))
