"""Creates the indexes of the search collection, called by CloudFormation through CDK's provider of custom resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opx.errors import OpxError
from opx.runtime.functions import observed
from opx.runtime.metrics import Report


class IndexNotCreatedError(Exception):
    """Shown as the reason in the events of the stack."""


def apply(event: Any) -> dict[str, Any]:
    """Answers a request of CloudFormation."""
    from opx_aws.index_resource import apply_request
    from opx_aws.opensearch import serverless_client

    return apply_request(event, serverless_client)


def make_handler(apply: Callable[[Any], dict[str, Any]] = apply) -> Callable[[Any, Any], dict[str, Any]]:
    """The function's handler. Its errors have their message, which names index and status, and quotes no document."""

    @observed
    def answer(event: Any, context: Any, report: Report) -> dict[str, Any] | OpxError:  # noqa: ARG001
        try:
            return apply(event)
        except OpxError as exc:
            return exc

    def handler(event: Any, context: Any) -> dict[str, Any]:
        found = answer(event, context)
        if isinstance(found, OpxError):
            raise IndexNotCreatedError(str(found)) from None
        return found

    return handler


handler = make_handler()
