"""Connects a client to a deployed system."""

from __future__ import annotations

from opx.adapters.remote.connections import Connections
from opx.edges.api_requests import bearer
from opx.edges.client import RemoteClient
from opx.settings import Settings


def open_client(settings: Settings) -> RemoteClient:
    """Calls operations of the deployed system that the settings name. The caller closes it.

    Its address is `api_url`, or the one that its stack says in the AWS account of the profile; the caller is whom the token
    or the profile's credentials are of. Raises `InvalidInputError`, `AccessDeniedError`, and `OpxError` if there is no
    such system.
    """
    if settings.api_url and settings.api_token:  # nothing of AWS is needed
        return RemoteClient(settings.api_url, bearer(settings.api_token), Connections())
    from opx.adapters.aws.deployed_api import DEFAULT_ENVIRONMENT, AwsAccount

    account = AwsAccount(settings.aws_profile, settings.aws_region)
    endpoint = settings.api_url or account.api_url(settings.environment or DEFAULT_ENVIRONMENT)
    authorize = bearer(settings.api_token) if settings.api_token else account.signed
    return RemoteClient(endpoint, authorize, Connections(certificates=account.certificates))
