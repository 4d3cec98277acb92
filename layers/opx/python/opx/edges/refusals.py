"""What an answer that is no success means, in words that say what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from opx.errors import (
    AccessDeniedError,
    ConditionFailedError,
    DocumentNotFoundError,
    HeldError,
    InvalidInputError,
    NotFoundError,
    OpxError,
    StoreUnavailableError,
    UnknownCategoryError,
)

_SHOWN = 300
_BY_CODE: Mapping[str, type[OpxError]] = {
    "invalid_argument": InvalidInputError,
    "unknown_category": UnknownCategoryError,
    "not_found": DocumentNotFoundError,
    "too_large": InvalidInputError,
    "conflict": ConditionFailedError,
    "forbidden": AccessDeniedError,
    "unavailable": StoreUnavailableError,
    "held": HeldError,
}
_MISSING: Mapping[str, type[OpxError]] = {kind.kind: kind for kind in NotFoundError.__subclasses__()}


_REFUSALS: Mapping[int, tuple[type[OpxError], str]] = {
    401: (
        AccessDeniedError,
        "{host} doesn't accept the token of OPX_API_TOKEN ({said}): it has expired, or is another's",
    ),
    403: (AccessDeniedError, "{host} refused {action} ({said}): {permission}"),
    404: (OpxError, "{host} knows no {action} ({said}): it is no such API, or was deployed from an older version"),
    413: (InvalidInputError, "{action} is too large for the API ({said})"),
    429: (StoreUnavailableError, "{host} is asked too much at once ({said}): try again in a while"),
    502: (StoreUnavailableError, "{host} can't answer {action} for now ({said})"),
    503: (StoreUnavailableError, "{host} can't answer {action} for now ({said})"),
    504: (StoreUnavailableError, "{host} can't answer {action} for now ({said})"),
}
"""What API Gateway itself answers."""


def error_of(status: int, body: bytes, headers: Mapping[str, str], method: str, url: str) -> OpxError:
    """The error of an answer. The API says what is wrong; API Gateway, before it, hardly does."""
    code, message, what = _said(body)
    if what in _MISSING:
        return _MISSING[what](message)
    if code in _BY_CODE:
        return _BY_CODE[code](message)
    parts = urlsplit(url)
    host, action = parts.netloc, f"{method} {parts.path}"
    said = f"{status}, {message[:_SHOWN]}" if message else str(status)
    if status in _REFUSALS:
        kind, text = _REFUSALS[status]
        return kind(text.format(host=host, action=action, said=said, permission=_permission(host, action)))
    request = headers.get("apigw-requestid", "")
    which = f", request {request}" if request else ""
    kind = StoreUnavailableError if status >= 500 else OpxError
    return kind(f"{host} answered {action} with status {said}{which}; its log may say more")


def _said(body: bytes) -> tuple[str, str, str]:
    """Code and message of an error of the API, and of what isn't there what it would be; or "" and the message of API
    Gateway."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "", "", ""
    if not isinstance(found, dict):
        return "", "", ""
    error = found.get("error")
    if isinstance(error, dict):
        return str(error.get("code", "")), str(error.get("message", "")), str(error.get("what", ""))
    return "", str(found.get("message", "")), ""


def _permission(host: str, action: str) -> str:
    """What a caller needs whom API Gateway doesn't let in."""
    api, _, rest = host.partition(".execute-api.")
    if not rest:
        return "the credentials don't allow it"
    resource = f"arn:aws:execute-api:{rest.split('.')[0]}:*:{api}/*/{action.replace(' ', '', 1)}"
    return (
        f"it needs execute-api:Invoke on {resource}, or a token with the right scope; expired credentials look the same"
    )
