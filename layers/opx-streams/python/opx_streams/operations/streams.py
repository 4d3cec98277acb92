"""Operations on streams.

Their documents belong to the installation's own scope, so only its administrators may manage them.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import field
from msgspec.structs import asdict

from opx.domain.policy import Action
from opx.domain.record import Record, about
from opx.domain.requests import Request, Text
from opx.domain.sources import StreamDefinition
from opx.operations.context import Context
from opx.operations.registry import Function, operation
from opx_streams import capability
from opx_streams.arrivals import STREAM, LastArrival

StreamName = Annotated[str, about("The name of a stream.", max_length=48)]


class ListStreams(Request, frozen=True):
    pass


class Streams(Record, frozen=True):
    streams: tuple[StreamDefinition, ...]
    last: Annotated[dict[str, LastArrival], about("The last records of streams, by name.")] = field(
        default_factory=dict
    )


@operation(http="GET /streams", function=Function.MANAGE, action=Action.MANAGE_SOURCES)
def list_streams(context: Context, request: ListStreams) -> Streams:  # noqa: ARG001 - as all operations
    """List the streams whose records become documents, by name, with their last records."""
    found = tuple(context.system.part(capability.StreamIngestion).repository.all())
    return Streams(found, context.system.part(capability.arrivals).last(STREAM, [one.name for one in found]))


class SubscribeStream(Request, frozen=True):
    source: Annotated[
        str,
        about(
            "The ARN of a Kinesis stream, SQS queue or MSK cluster, kafka://host:port, or redis://host:port/0.",
            max_length=2048,
        ),
    ]
    category: Annotated[Text, about("The category of its documents.")]
    topic: Annotated[str, about("The key of a Redis stream, or Kafka's topic.", max_length=512)] = ""
    name: Annotated[str, about("Its name; left out, a hash of its address.", max_length=48)] = ""
    pattern: Annotated[dict[str, Any] | None, about("Filter of records, in the syntax of Lambda's event filters.")] = (
        field(default=None, name="filter")
    )
    identity: Annotated[
        str, about("JSONPath of a document's identity, so that records are its versions.", max_length=1000)
    ] = ""
    password_secret: Annotated[str, about("The secret with Redis' password.", max_length=512)] = ""
    tags: Annotated[tuple[Text, ...], about("Tags of all its documents.", max_length=50)] = ()


class Subscribed(Record, frozen=True):
    name: str
    deployed: Annotated[bool, about("True if a function of the deployed system reads it, and no `opx run`.")]


@operation(action=Action.MANAGE_SOURCES)
def subscribe_stream(context: Context, request: SubscribeStream) -> Subscribed:
    """Subscribe to a stream: its records become documents from now on.

    Raises `InvalidInputError` that names the error, for a stream that is subscribed under another name, and for one that
    this system can't read.
    """
    name = context.system.part(capability.StreamIngestion).control.subscribe(
        **{**asdict(request), "tags": list(request.tags)}
    )
    return Subscribed(name, deployed=context.system.ports.functions.stream_subscriptions is not None)


class EndStream(Request, frozen=True):
    name: StreamName


class EndedStream(Record, frozen=True):
    removed: StreamName


@operation(action=Action.MANAGE_SOURCES)
def end_stream(context: Context, request: EndStream) -> EndedStream:
    """End a subscription; its documents stay.

    Raises `InvalidInputError` for a stream of knowledge.yaml, and for an unknown one.
    """
    context.system.part(capability.StreamIngestion).control.end(request.name)
    return EndedStream(request.name)
