"""Intercepts requests of the agents' gateway: reads the caller from the verified token, and states it to the functions of
tools."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from opx.edges.gateway_callers import TrustedTokens, intercept
from opx.ports import Clock
from opx.ports.sources import Secrets
from opx.runtime.functions import Started, around_snapshot, function_settings, observed
from opx.runtime.metrics import Report
from opx.settings import Settings, listed


class SigningSecrets(Secrets, Started, Protocol):
    """Secrets whose code is in the snapshot."""


def start() -> SigningSecrets:
    """The secrets of the account."""
    from opx_aws.ports import AwsClients
    from opx_aws.secrets import AccountSecrets

    return AccountSecrets(AwsClients(), time.time)


def make_handler(
    start: Callable[[], SigningSecrets] = start,
    settings: Callable[[], Settings] = function_settings,
    clock: Clock = time.time,
) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler; `start` is called once: before a snapshot, or at the first event of a cold start."""
    secrets, chosen = cache(start), cache(settings)
    around_snapshot(secrets)

    @observed
    def handler(event: Any, context: Any, report: Report) -> dict[str, Any]:  # noqa: ARG001
        found = chosen()
        tokens = TrustedTokens(found.token_issuer, listed(found.token_audience), listed(found.token_clients))
        return intercept(event, tokens, lambda: secrets().get(found.gateway_secret), clock(), report)

    return handler


handler = make_handler()
