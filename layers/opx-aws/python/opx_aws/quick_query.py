"""Queries of DynamoDB with less than half of the CPU time that botocore takes for one.

A question that follows the graph sends some eighty of them, and a function of Lambda has about half a processor. The request
is signed and sent as botocore would do it, without its validation, endpoint rules, hooks and parser.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError

_HEADERS = {"X-Amz-Target": "DynamoDB_20120810.Query", "Content-Type": "application/x-amz-json-1.0"}
_EVENT = "before-send.dynamodb.Query"


class QuickQuery:
    """The method `query` of a client. Whatever isn't answered well at once is left to the client, with its retries and
    errors. Values come as the service sends them."""

    def __init__(self, client: Any, credentials: Any, http: Any) -> None:
        self._thorough = client.query
        self._events = client.meta.events
        self._url = client.meta.endpoint_url.rstrip("/") + "/"
        self._region = client.meta.region_name
        self._credentials = credentials
        self._http = http

    def __call__(self, **request: Any) -> Any:
        try:
            answer = self._answer(request)
        except (BotoCoreError, TypeError, ValueError):  # no connection, bytes in the request, or a malformed reply
            answer = None
        return self._thorough(**request) if answer is None else answer

    def _answer(self, request: dict[str, Any]) -> Any:
        """The reply; None for one that has to be looked at more closely."""
        sent = AWSRequest("POST", self._url, headers=dict(_HEADERS), data=json.dumps(request).encode())
        SigV4Auth(self._credentials.get_frozen_credentials(), "dynamodb", self._region).add_auth(sent)
        prepared = sent.prepare()
        reply = self._events.emit_until_response(_EVENT, request=prepared)[1] or self._http.send(prepared)
        content = reply.content
        checksum = reply.headers.get("x-amz-crc32")
        if reply.status_code != 200 or (checksum and int(checksum) != zlib.crc32(content)):
            return None
        return json.loads(content)
