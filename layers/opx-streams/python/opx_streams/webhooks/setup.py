"""Manages the webhooks of an installation: lists their addresses, creates their secrets, and sends test deliveries."""

from __future__ import annotations

import secrets as randomness
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from opx.domain.sources import WebhookDefinition
from opx.errors import InvalidInputError, SecretNotFoundError
from opx.operations.secrets import writable
from opx.ports.sources import Secrets
from opx.runtime.knowledge_file import load_knowledge
from opx.settings import Settings
from opx_streams.webhooks.definitions import load_webhooks, webhook_endpoint
from opx_streams.webhooks.formats import sample, scheme_of
from opx_streams.webhooks.views import DeliveryAnswer, MadeSecret, WebhookSecret, WebhookView

_SECRET_BYTES = 32
_SECONDS = 30.0
_PLAIN_ENVIRONMENT, _DEFAULT_ENVIRONMENT = "prod", "dev"


@dataclass(frozen=True, slots=True)
class WebhookSetup:
    """The declared webhooks. `on_aws`: their secrets are in Secrets Manager, of which only names are known here."""

    definitions: Mapping[str, WebhookDefinition]
    settings: Settings
    on_aws: bool
    secrets: Callable[[], Secrets]

    def views(self) -> tuple[WebhookView, ...]:
        return tuple(
            WebhookView(each.name, each.format, each.category, self.address(each), self._states(each))
            for each in self.definitions.values()
        )

    def get(self, name: str) -> WebhookDefinition:
        """Returns a webhook. Raises `InvalidInputError` that lists the declared ones."""
        if name not in self.definitions:
            raise InvalidInputError(
                f"there is no webhook {name!r}; declared are: {', '.join(self.definitions) or 'none'}"
            )
        return self.definitions[name]

    def address(self, definition: WebhookDefinition) -> str:
        base = self.settings.webhook_url or ("$OPX_WEBHOOK_URL" if self.on_aws else "")
        return webhook_endpoint(base, definition.tier.value, definition.category, definition.name)

    def make_secret(self, name: str, wanted: str = "", *, replace: bool = False) -> MadeSecret:
        """Generates a secret of a webhook, by default the first that isn't set, and stores it where secrets can be set.

        Raises `InvalidInputError` for one that is set, unless `replace`.
        """
        chosen = self._chosen(self.get(name), wanted, replace=replace)
        value = randomness.token_hex(_SECRET_BYTES)
        if self.on_aws:
            return MadeSecret(self._name_on_aws(chosen), value, kept=False)
        writable(self.secrets()).put(chosen, value)
        return MadeSecret(chosen, value, kept=True)

    def send(self, name: str, body: bytes | None, now: float) -> DeliveryAnswer:
        """Sends a signed delivery to a webhook, by default a small sample of its format. Raises `InvalidInputError` if
        nothing answers."""
        definition = self.get(name)
        key = self._key(definition)
        prepared, headers = sample(definition)
        body = prepared if body is None else body
        proof = scheme_of(definition.format).proof(key.strip().encode(), body, now)
        address = self.address(definition)
        full = f"{address}&{urlencode(proof.query)}" if proof.query else address
        status, answer = _post(full, body, {**headers, **proof.headers})
        return DeliveryAnswer(address, status, answer)

    # -- secrets

    def _states(self, definition: WebhookDefinition) -> tuple[WebhookSecret, ...]:
        if self.on_aws:
            return tuple(WebhookSecret(self._name_on_aws(name)) for name in definition.secrets)
        return tuple(WebhookSecret(name, self._is_set(name)) for name in definition.secrets)

    def _name_on_aws(self, name: str) -> str:
        environment = self.settings.environment or _DEFAULT_ENVIRONMENT
        prefix = "" if environment == _PLAIN_ENVIRONMENT else f"{environment}-"
        return f"{prefix}opx-knowledge/{name}"

    def _is_set(self, name: str) -> bool:
        try:
            self.secrets().get(name)
        except SecretNotFoundError:
            return False
        return True

    def _chosen(self, definition: WebhookDefinition, wanted: str, *, replace: bool) -> str:
        names = definition.secrets
        if not names:
            raise InvalidInputError(f"webhook {definition.name} has no secret: AWS signs what it delivers")
        if wanted and wanted not in names:
            raise InvalidInputError(f"webhook {definition.name} has no secret {wanted!r}; it has: {', '.join(names)}")
        chosen = [wanted] if wanted else list(names)
        if self.on_aws or (replace and len(chosen) == 1):
            return chosen[0]
        unset = [name for name in chosen if not self._is_set(name)]
        if not unset:
            raise InvalidInputError(
                f"{' and '.join(chosen)} set already: to replace one, name it with --of, and --replace"
            )
        return unset[0]

    def _key(self, definition: WebhookDefinition) -> str:
        """Returns a secret that is set. Raises `InvalidInputError` without one."""
        if not definition.secrets:
            raise InvalidInputError(f"deliveries of format {definition.format} can only be signed by AWS")
        for name in definition.secrets:
            if self._is_set(name):
                return self.secrets().get(name)
        raise InvalidInputError(
            f"no secret of webhook {definition.name} is set: `opx webhook secret {definition.name}`"
        )


def webhook_setup(settings: Settings, secrets: Callable[[], Secrets], *, on_aws: bool) -> WebhookSetup:
    """Loads the webhooks of the knowledge file of the settings. Raises `KnowledgeConfigError` for invalid ones."""
    path = Path(settings.knowledge_file) if settings.knowledge_file else None
    return WebhookSetup(load_webhooks(load_knowledge(path), path), settings, on_aws, secrets)


def _post(address: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, str]:
    """Sends a request, and returns status and text of the answer. Raises `InvalidInputError` if there is none."""
    if urlsplit(address).scheme not in ("http", "https"):
        raise InvalidInputError(f"{address} is not an address of a server: set OPX_WEBHOOK_URL to https://...")
    request = urllib.request.Request(address, data=body, headers=dict(headers), method="POST")  # noqa: S310 - checked above
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as reply:  # noqa: S310
            return reply.status, reply.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode("utf-8", "replace")
    except OSError as exc:
        server = urlsplit(address).netloc
        raise InvalidInputError(
            f"nothing answers at {server} ({exc}): start `opx run --listen`, or set OPX_WEBHOOK_URL"
        ) from exc
