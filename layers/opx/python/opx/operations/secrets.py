"""Operations on secrets, for the operator on the system's own machine."""

from __future__ import annotations

from typing import Annotated

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Filled, Request
from opx.errors import InvalidInputError
from opx.operations.context import Context
from opx.operations.registry import operation
from opx.ports.sources import Secrets, WritableSecrets

SecretName = Annotated[Filled, about("The name of a secret.", max_length=512)]


class ListSecrets(Request, frozen=True):
    pass


class SecretNames(Record, frozen=True):
    names: tuple[str, ...]


@operation(action=Action.ADMINISTER)
def list_secrets(context: Context, request: ListSecrets) -> SecretNames:  # noqa: ARG001 - as all operations
    """List the names of the secrets that are stored on this machine."""
    return SecretNames(tuple(writable(context.system.ports.secrets).names()))


class SetSecret(Request, frozen=True):
    name: SecretName
    value: Annotated[str, about("The secret.", max_length=65_536)]


class SecretChanged(Record, frozen=True):
    name: str


@operation(action=Action.ADMINISTER)
def set_secret(context: Context, request: SetSecret) -> SecretChanged:
    """Set a secret, replacing it."""
    value = request.value.strip()
    if not value:
        raise InvalidInputError("the value is empty; nothing was set")
    writable(context.system.ports.secrets).put(request.name, value)
    return SecretChanged(request.name)


class RemoveSecret(Request, frozen=True):
    name: SecretName


@operation(action=Action.ADMINISTER)
def remove_secret(context: Context, request: RemoveSecret) -> SecretChanged:
    """Remove a secret. Raises `InvalidInputError` if it doesn't exist."""
    secrets = writable(context.system.ports.secrets)
    if request.name not in secrets.names():
        raise InvalidInputError(f"there is no secret {request.name!r}; `opx secret list` shows those there are")
    secrets.delete(request.name)
    return SecretChanged(request.name)


def writable(secrets: Secrets) -> WritableSecrets:
    """Returns secrets that can be set. Raises `InvalidInputError` for those of a deployed system."""
    if not isinstance(secrets, WritableSecrets):
        raise InvalidInputError("secrets of a deployed system are in Secrets Manager: set them there")
    return secrets
