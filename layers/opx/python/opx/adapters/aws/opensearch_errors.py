"""What OpenSearch answers to what it refuses, fit for an error message: without the text that was searched or written."""

from __future__ import annotations

import re

from opensearchpy import OpenSearchException, TransportError

_BAD_REQUEST = 400
_QUOTED = re.compile(r"(['\"]).*\1", re.DOTALL)


def told(error: OpenSearchException) -> str:
    """What went wrong. Of a bad request only the kind of mistake: its reason may quote the request."""
    if isinstance(error, TransportError) and error.status_code == _BAD_REQUEST:
        return f"{_BAD_REQUEST} {error.error}"
    return str(error)


def unquoted(reason: str) -> str:
    """A reason without what it quotes, such as the value of a field: all from the first quotation mark to the last."""
    return _QUOTED.sub("'…'", reason)
