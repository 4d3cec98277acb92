"""Operations on webhooks, for the operator on the system's own machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from opx.domain.policy import Action
from opx.domain.record import Record, about, replace
from opx.domain.requests import Request
from opx.operations.context import Context
from opx.operations.registry import Function, operation
from opx_streams.arrivals import WEBHOOK
from opx_streams.capability import arrivals
from opx_streams.webhooks.views import DeliveryAnswer, MadeSecret, WebhookView

if TYPE_CHECKING:
    from opx_streams.webhooks.setup import WebhookSetup

MAX_BODY_BYTES = 4 * 1024 * 1024

Body = Annotated[bytes, Meta(max_length=MAX_BODY_BYTES)]
WebhookName = Annotated[str, about("The name of a webhook of knowledge.yaml.", max_length=48)]


class ListWebhooks(Request, frozen=True):
    pass


class Webhooks(Record, frozen=True):
    webhooks: tuple[WebhookView, ...]


@operation(http="GET /webhooks", function=Function.MANAGE, action=Action.ADMINISTER)
def list_webhooks(context: Context, request: ListWebhooks) -> Webhooks:  # noqa: ARG001 - as all operations
    """List the webhooks that knowledge.yaml declares, with their addresses, whether their secrets are set, and their last
    deliveries."""
    views = _setup(context).views()
    last = context.system.part(arrivals).last(WEBHOOK, [one.name for one in views])
    return Webhooks(tuple(replace(one, last=last.get(one.name)) for one in views))


class MakeWebhookSecret(Request, frozen=True):
    name: WebhookName
    secret: Annotated[
        str, about("The name of one of its secrets; left out, the first that isn't set.", max_length=512)
    ] = ""
    replace: Annotated[
        bool, about("Replace an existing one: deliveries that are signed with it are refused from then on.")
    ] = False


@operation(action=Action.ADMINISTER)
def make_webhook_secret(context: Context, request: MakeWebhookSecret) -> MadeSecret:
    """Generate a secret of a webhook, and store it.

    Raises `InvalidInputError` for one that is set, unless it is to be replaced, and for a webhook without secrets.
    """
    return _setup(context).make_secret(request.name, request.secret, replace=request.replace)


class SendTestDelivery(Request, frozen=True):
    name: WebhookName
    body: Annotated[Body | None, about("The body; left out, a small sample of the format.")] = None


@operation(action=Action.ADMINISTER)
def send_test_delivery(context: Context, request: SendTestDelivery) -> DeliveryAnswer:
    """Send a signed delivery to a webhook, and return its answer. A sample becomes a document called "Test delivery".

    Raises `InvalidInputError` if none of its secrets is set, or the webhook doesn't answer.
    """
    return _setup(context).send(request.name, request.body, context.system.clock())


def _setup(context: Context) -> WebhookSetup:
    from opx_streams.webhooks.setup import webhook_setup

    system = context.system
    return webhook_setup(system.settings, lambda: system.ports.secrets, on_aws=system.settings.backend == "aws")
