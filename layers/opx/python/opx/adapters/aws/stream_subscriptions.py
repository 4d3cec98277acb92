"""Subscriptions to streams on AWS: event source mappings of the function that consumes them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opx.adapters.aws.vendor_errors import translated_errors
from opx.domain.streams import StreamDefinition, StreamKind
from opx.errors import InvalidInputError
from opx.streams.mappings import mapping_of

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class EventSourceMappings:
    """Has Lambda read streams for `function`, whose role must be allowed to."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def put(self, definition: StreamDefinition) -> str:
        """Have the stream read, replacing how it was. Returns the mapping's id."""
        if definition.kind is StreamKind.REDIS:
            raise InvalidInputError(f"stream {definition.name}: Redis is read by `opx run`, not by a function")
        wanted = mapping_of(definition)
        with translated_errors(f"subscribe to {definition.source}"):
            known = self._known(definition)
            if known is None:
                made = self._client.create_event_source_mapping(FunctionName=self._function, **wanted)
                return made["UUID"]
            changeable = {name: value for name, value in wanted.items() if name not in _FIXED}
            self._client.update_event_source_mapping(UUID=known["UUID"], **changeable)
            return str(known["UUID"])

    def delete(self, definition: StreamDefinition) -> None:
        """Have it read no more. Nothing happens if it never was."""
        with translated_errors(f"end the subscription to {definition.source}"):
            known = self._known(definition)
            if known:
                self._client.delete_event_source_mapping(UUID=known["UUID"])

    def _known(self, definition: StreamDefinition) -> Any:
        pages = self._client.get_paginator("list_event_source_mappings").paginate(FunctionName=self._function)
        for page in pages:
            for mapping in page["EventSourceMappings"]:
                brokers = json.dumps(mapping.get("SelfManagedEventSource", {}))
                same = mapping.get("EventSourceArn") == definition.source or (
                    definition.source.startswith("kafka://") and definition.source.removeprefix("kafka://") in brokers
                )
                if same and definition.topic in ("", *mapping.get("Topics", [])):
                    return mapping
        return None


_FIXED = ("EventSourceArn", "SelfManagedEventSource", "Topics", "StartingPosition")
"""What a mapping can't be changed in."""
