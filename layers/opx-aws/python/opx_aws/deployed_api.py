"""Finds a deployed system's HTTP API and signs requests to it with the credentials of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import ReadOnlyCredentials
from botocore.exceptions import (
    ClientError,
    ConfigParseError,
    CredentialRetrievalError,
    InvalidConfigError,
    InvalidRegionError,
    LoginError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from opx.errors import AccessDeniedError, InvalidInputError, OpxError
from opx_aws.clients import client
from opx_aws.vendor_errors import error_code, raised_as, translated_errors

DEFAULT_ENVIRONMENT = "dev"
URL_OUTPUT = "ApiUrl"
"""The output of the API's stack that holds its address."""

_LOOK_UP = "cloudformation:DescribeStacks; or give --api URL"
_SERVICE = "execute-api"
_HOST = re.compile(r"[a-z0-9]+\.execute-api\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?\Z")
_EXPIRED = ("ExpiredToken", "ExpiredTokenException", "RequestExpired")
_UNKNOWN = ("InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "AuthFailure")


class AwsAccount:
    """The credentials and the region of a profile, or of the default credential chain if it is empty.

    Raises `InvalidInputError` for an unknown profile. AWS isn't called before a method is.
    """

    def __init__(self, profile: str = "", region: str = "") -> None:
        self._profile = profile
        try:
            self._session = boto3.Session(profile_name=profile or None, region_name=region or None)
        except ProfileNotFound as exc:
            known = ", ".join(boto3.Session().available_profiles) or "none"
            raise InvalidInputError(f"there is no AWS profile {profile!r} on this machine; there are: {known}") from exc
        except ConfigParseError as exc:
            raise InvalidInputError(str(exc)) from exc

    @property
    def region(self) -> str:
        """The region. Raises `InvalidInputError` if there is none."""
        region = self._session.region_name
        if not region:
            raise InvalidInputError(f"{self._name} has no region: give one with --region or OPX_AWS_REGION")
        return str(region)

    @property
    def certificates(self) -> str:
        """The CA file that the profile or AWS_CA_BUNDLE names, "" for the default one."""
        return str(self._session._session.get_config_variable("ca_bundle") or "")

    def api_url(self, environment: str) -> str:
        """The address of the API that was deployed under this name, or under the default one if it is empty.

        Raises `OpxError` if there is none in the account and region, and `AccessDeniedError` if reading the stack is not
        permitted.
        """
        stack = f"opx-knowledge-{environment or DEFAULT_ENVIRONMENT}-api"
        where = f"region {self.region}, {self._name}"
        action = f"look up the stack {stack}"
        missing = OpxError(
            f"there is no stack {stack} ({where}): was it deployed with an API, under this --environment, in this --region "
            "and account?"
        )
        with translated_errors(action), self.credential_errors(action), raised_as(missing, "ValidationError"):
            found = client("cloudformation", session=self._session).describe_stacks(StackName=stack)
        outputs = {output["OutputKey"]: output["OutputValue"] for output in found["Stacks"][0].get("Outputs", [])}
        if URL_OUTPUT not in outputs:
            raise OpxError(
                f"the stack {stack} ({where}) has no output {URL_OUTPUT}: deploy it again, or give --api URL"
            )
        return str(outputs[URL_OUTPUT])

    def client(self, service: str, **options: Any) -> Any:
        """A client of a service of this account, with the options of `opx_aws.clients.client`."""
        return client(service, session=self._session, **options)

    def signed(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, *, service: str = _SERVICE
    ) -> Mapping[str, str]:
        """The headers with a signature, for API Gateway by default. Raises `AccessDeniedError` without usable credentials."""
        found = _HOST.match(urlsplit(url).hostname or "")
        request = AWSRequest(method=method, url=url, data=body or b"", headers=dict(headers))
        SigV4Auth(self._credentials(), service, found["region"] if found else self.region).add_auth(request)
        return {name: str(value) for name, value in request.headers.items()}

    def _credentials(self) -> ReadOnlyCredentials:
        with self.credential_errors("sign in to the API"):
            found = self._session.get_credentials()
            if found is None:
                raise NoCredentialsError
            return found.get_frozen_credentials()

    @property
    def _name(self) -> str:
        return f"AWS profile {self._profile}" if self._profile else "the AWS credentials of this machine"

    @contextmanager
    def credential_errors(self, action: str, needed: str = _LOOK_UP) -> Iterator[None]:
        """Raises `AccessDeniedError` with the remedy: getting credentials, or the missing permission."""
        option = f" --profile {self._profile}" if self._profile else ""
        hint = f"sign in again (`aws sso login{option}`), or renew them where you got them"
        try:
            yield
        except ClientError as exc:
            self._raise_denied(exc, action, hint, needed)
            raise
        except (NoCredentialsError, PartialCredentialsError, InvalidConfigError) as exc:
            raise AccessDeniedError(f"no usable credentials in {self._name}: {exc}") from exc
        except (SSOError, LoginError, TokenRetrievalError, CredentialRetrievalError) as exc:
            raise AccessDeniedError(f"{self._name}: {exc}; {hint}") from exc
        except InvalidRegionError as exc:
            raise InvalidInputError(str(exc)) from exc

    def _raise_denied(self, error: ClientError, action: str, hint: str, needed: str) -> None:
        code = error_code(error)
        if code in _EXPIRED:
            raise AccessDeniedError(f"the credentials of {self._name} have expired: {hint}") from error
        if code in _UNKNOWN:
            raise AccessDeniedError(f"AWS doesn't know the credentials of {self._name} ({code}): {hint}") from error
        if code.startswith("AccessDenied"):
            raise AccessDeniedError(f"{self._name} may not {action}: it needs {needed}") from error
