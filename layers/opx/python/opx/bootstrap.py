"""The one composition root: settings in, a working system out.

Each backend's adapters come with a class that puts them together, and are imported for that backend only. Tests pass
their own adapters as overrides to the same function.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from opx.ports import Clock
from opx.services import Services
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.edges.client import RemoteClient


def open_client(settings: Settings) -> RemoteClient:
    """Calls operations of the deployed system that the settings name. The caller closes it.

    Its address is `api_url`, or the one that its stack says in the AWS account of the profile; the caller is whom the token
    or the profile's credentials are of. Raises `InvalidInputError`, `AccessDeniedError`, and `OpxError` if there is no
    such system.
    """
    from opx.adapters.remote.connections import Connections
    from opx.edges.api_requests import bearer
    from opx.edges.client import RemoteClient

    if settings.api_url and settings.api_token:  # nothing of AWS is needed
        return RemoteClient(settings.api_url, bearer(settings.api_token), Connections())
    from opx.adapters.aws.deployed_api import DEFAULT_ENVIRONMENT, AwsAccount

    account = AwsAccount(settings.aws_profile, settings.aws_region)
    endpoint = settings.api_url or account.api_url(settings.environment or DEFAULT_ENVIRONMENT)
    authorize = bearer(settings.api_token) if settings.api_token else account.signed
    return RemoteClient(endpoint, authorize, Connections(certificates=account.certificates))


def bootstrap(settings: Settings, *, clock: Clock = time.time, **overrides: object) -> Services:
    """The services for `settings`. Overrides replace parts by name (`embedder`, `index`, `store`, `queue`, ...)."""
    services = _of_backend(settings, clock)
    services.__dict__.update(overrides)
    return services


def _of_backend(settings: Settings, clock: Clock) -> Services:
    if settings.backend == "aws":
        from opx.adapters.aws.services import AwsServices

        return AwsServices(settings, clock=clock)
    from opx.adapters.embedded.services import EmbeddedServices

    return EmbeddedServices(settings, clock=clock)
