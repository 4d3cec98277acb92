"""Reads secrets from Secrets Manager."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING

from opx.domain.ids import Clock
from opx.errors import SecretNotFoundError
from opx_aws.vendor_errors import raised_as, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager import SecretsManagerClient

    from opx_aws.ports import AwsClients

_SERVICE = "secretsmanager"
KEPT_SECONDS = 300.0
"""Seconds until a changed secret is used everywhere."""


class ManagedSecrets:
    """Reads secrets whose names begin with `prefix`, each at most once in five minutes."""

    def __init__(self, client: SecretsManagerClient, prefix: str, clock: Clock) -> None:
        self._client = client
        self._prefix = prefix
        self._clock = clock
        self._known: dict[str, tuple[float, str]] = {}

    def get(self, name: str) -> str:
        read_at, value = self._known.get(name, (float("-inf"), ""))
        if self._clock() - read_at < KEPT_SECONDS:
            return value
        value = self._read(name)
        self._known[name] = (self._clock(), value)
        return value

    def _read(self, name: str) -> str:
        full = self._prefix + name
        missing = SecretNotFoundError(f"there is no secret {full} in Secrets Manager: create it")
        with translated_errors(f"read the secret {full}"), raised_as(missing, "ResourceNotFoundException"):
            answer = self._client.get_secret_value(SecretId=full)
        return _value(answer.get("SecretString", ""), full)


class AccountSecrets:
    """Reads secrets by their full names, each at most once in five minutes. A snapshot holds the description of the service,
    and no client."""

    def __init__(self, clients: AwsClients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock

    def load(self) -> None:
        """Loads the description of the service, which takes most of the time to create a client."""
        self._clients.load(_SERVICE)

    def open(self) -> None:
        """Creates the client, with credentials of this process."""
        _ = self._secrets

    def get(self, name: str) -> str:
        return self._secrets.get(name)

    @cached_property
    def _secrets(self) -> ManagedSecrets:
        return ManagedSecrets(self._clients(_SERVICE), "", self._clock)


def _value(text: str, name: str) -> str:
    """Extracts the secret: the string itself, or the only value of a JSON object, which the console creates from typed
    input."""
    if text.startswith("{"):
        try:
            found = json.loads(text)
        except ValueError:
            return text
        values = [value for value in found.values() if isinstance(value, str)]
        if len(values) == 1:
            return values[0]
        raise SecretNotFoundError(f"the secret {name} must be a string, or an object with one value")
    if not text:
        raise SecretNotFoundError(f"the secret {name} is empty, or binary: it must be a string")
    return text
