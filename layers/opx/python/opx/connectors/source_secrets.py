"""Which secrets a source may use: whoever says where it reads from could have any secret that it names sent there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from opx.domain.knowledge import KnowledgeModel
from opx.errors import SecretNotFoundError
from opx.ports.sources import Secrets
from opx.settings import Settings


class SourceSecrets:
    """The secrets of a source that was registered: all but the `reserved` ones, which are named with whose they are."""

    def __init__(self, secrets: Secrets, reserved: Callable[[], Mapping[str, str]]) -> None:
        self._secrets = secrets
        self._reserved = reserved

    def get(self, name: str) -> str:
        """The secret with this name. Raises `SecretNotFoundError`, also for one that is reserved."""
        owner = self._reserved().get(name)
        if owner:
            raise SecretNotFoundError(
                f"the secret {name} is that of {owner}: a source that is registered needs one of its own; "
                "or declare the source in knowledge.yaml"
            )
        return self._secrets.get(name)


def reserved_secrets(knowledge: KnowledgeModel, settings: Settings) -> dict[str, str]:
    """Secrets with which the system lets others in, or pays, each with what it is for. Raises `KnowledgeConfigError`."""
    from opx.connectors.webhooks.definitions import load_webhooks
    from opx.retrieval.web.setup import read_internet

    path = Path(settings.knowledge_file) if settings.knowledge_file else None
    found = {
        name: f"webhook {webhook.name}"
        for webhook in load_webhooks(knowledge, path).values()
        for name in webhook.secrets
    }
    internet = read_internet(path)
    if internet:
        found[internet.api_key_env] = "live search of the web"
    if settings.vision_secret:
        found[settings.vision_secret] = "the model that describes pictures"
    return found
