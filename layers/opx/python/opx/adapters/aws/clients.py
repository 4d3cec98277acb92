"""boto3 clients as every adapter wants them."""

from __future__ import annotations

from typing import Any

import boto3
from botocore.config import Config

import opx

CONNECT_SECONDS = 3.0
READ_SECONDS = 20.0
ATTEMPTS = 5


def client(
    service: str,
    *,
    session: boto3.Session | None = None,
    region: str | None = None,
    read_seconds: float = READ_SECONDS,
    attempts: int = ATTEMPTS,
) -> Any:
    """A client that retries with adaptive back-off, up to `attempts` calls in all, and gives up on a silent peer.

    Credentials, region and endpoints come from where boto3 looks for them: `AWS_ENDPOINT_URL` or
    `AWS_ENDPOINT_URL_<SERVICE>` send it elsewhere. Clients are thread-safe; make one a process.
    """
    config = Config(
        retries={"mode": "adaptive", "total_max_attempts": attempts},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        tcp_keepalive=True,
        user_agent_extra=f"opx-knowledge/{opx.__version__}",
    )
    return (session or boto3.Session()).client(service, region_name=region, config=config)  # type: ignore[call-overload]
