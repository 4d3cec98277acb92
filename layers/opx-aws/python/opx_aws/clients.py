"""Creates boto3 clients with the settings that all adapters share."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any, Literal

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import NoRegionError

import opx
from opx.errors import InvalidInputError
from opx_aws.quick_query import QuickQuery

CONNECT_SECONDS = 3.0
READ_SECONDS = 20.0
ATTEMPTS = 5


def new_session() -> boto3.Session:
    """A session that shares loaded service descriptions with its clients."""
    return boto3.Session(botocore_session=botocore.session.get_session())


def once(make: Callable[[], Any]) -> Callable[[], Any]:
    """Creates a client on first use, in any thread, and only once."""
    made: list[Any] = []
    lock = threading.Lock()

    def get() -> Any:
        with lock:
            if not made:
                made.append(make())
            return made[0]

    return get


def load_descriptions(session: boto3.Session, *services: str) -> None:
    """Loads the service descriptions of these clients, which takes most of the time to create one.

    Needs no credentials and opens no connection.
    """
    loader = session._session.get_component("data_loader")  # botocore's session, which boto3's has no public name for
    for service in services:
        loader.load_service_model(service, "service-2")
        loader.load_service_model(service, "endpoint-rule-set-1")
    loader.load_data("endpoints")
    loader.load_data("partitions")


def client(
    service: str,
    *,
    session: boto3.Session | None = None,
    region: str | None = None,
    read_seconds: float = READ_SECONDS,
    attempts: int = ATTEMPTS,
    addressing: Literal["auto", "virtual", "path"] = "auto",
) -> Any:
    """A client that retries with back-off, up to `attempts` calls in all, and times out on a silent peer. It doesn't adapt
    its rate: botocore has one rate for a client, so that throttling of one table would delay the calls to all others.

    Credentials, region and endpoints come from boto3's usual sources: `AWS_ENDPOINT_URL` or `AWS_ENDPOINT_URL_<SERVICE>`
    redirect it. Clients are thread-safe; create one per process. `addressing` is the style of S3 addresses, which are
    signed with version 4 everywhere: in S3's older regions botocore would sign presigned addresses with version 2, which
    covers no headers.
    """
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        tcp_keepalive=True,
        s3={"addressing_style": addressing},
        signature_version="s3v4" if service == "s3" else None,
        user_agent_extra=f"opx-knowledge/{opx.__version__}",
    )
    session = session or boto3.Session()
    try:
        made = session.client(service, region_name=region, config=config)  # type: ignore[call-overload]
    except NoRegionError:
        raise InvalidInputError(
            "AWS needs a region: set AWS_DEFAULT_REGION, or AWS_PROFILE to a profile that has one"
        ) from None
    if service == "dynamodb":
        for read in ("BatchGetItem", "GetItem", "Query", "Scan"):
            made.meta.events.register(f"before-parse.dynamodb.{read}", _as_sent)
        # the client's own connections: they follow its proxies, certificates and time limits
        http, credentials = getattr(made._endpoint, "http_session", None), session.get_credentials()
        if http and credentials:
            made.query = QuickQuery(made, credentials, http)
    return made


def _as_sent(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: Any) -> None:
    """Passes items as the service sends them: binary values as base64, all else as botocore would parse it, value by value
    in Python, which takes half of a query's CPU time."""
    if response_dict["status_code"] == 200:
        customized_response_dict.update(json.loads(response_dict["body"]))
        response_dict["body"] = b"{}"
