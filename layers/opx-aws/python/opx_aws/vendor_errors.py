"""Translates errors of AWS to those of the library, and spaces retries to a busy service."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    TokenRetrievalError,
)

from opx.errors import OpxError, StoreUnavailableError

P = TypeVar("P")

_jitter = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential back-off with jitter: `attempts` tries, pauses of `base`, 2 x `base`, ... up to `longest` seconds.

    Each pause is shortened by up to a half at random, so that many callers that failed together don't return together.
    """

    attempts: int = 6
    base: float = 0.5
    longest: float = 8.0
    random: Callable[[], float] = _jitter.random

    def pauses(self) -> Iterator[float]:
        """Seconds to wait after each failed try but the last."""
        for retry in range(self.attempts - 1):
            yield min(self.longest, self.base * 2**retry) * (1 - self.random() / 2)


CONNECTION_ERRORS = (
    ConnectionError,
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    TokenRetrievalError,
)

_TRANSIENT = (
    "InternalError",
    "InternalServerError",
    "KmsThrottled",
    "LimitExceeded",
    "OverLimit",
    "ProvisionedThroughputExceeded",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "ThrottledException",
    "Throttling",
    "TooManyRequests",
    "TransactionConflict",
    "TransactionInProgress",
)
_REFUSED = (
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "Kms",
    "NoSuchBucket",
    "NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFound",
    "SignatureDoesNotMatch",
    "UnrecognizedClient",
)


BUSY_MODEL_CODES = frozenset(
    {
        "InternalServerException",
        "ModelNotReadyException",
        "ModelTimeoutException",
        "ServiceUnavailableException",
        "ThrottlingException",
    }
)
"""Errors of a call of a Bedrock model after which the same request may succeed."""


def error_code(error: ClientError) -> str:
    """The service's code. Queues prefix theirs: `AWS.SimpleQueueService.NonExistentQueue`."""
    return error.response.get("Error", {}).get("Code", "").rpartition(".")[2]


def safe_message(error: Exception) -> str:
    """The error's message. A validation error is reduced to its code: its message may quote the text of the request."""
    if isinstance(error, ClientError) and error_code(error) == "ValidationException":
        return "ValidationException"
    return str(error)


@contextmanager
def translated_errors(action: str) -> Iterator[None]:
    """Raises `StoreUnavailableError` if the service can't be reached, fails, throttles, or refuses the caller.

    Errors in the request itself pass: they are bugs of ours.
    """
    try:
        yield
    except CONNECTION_ERRORS as exc:
        raise StoreUnavailableError(f"can't {action}: {exc}") from exc
    except ClientError as exc:
        status = exc.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = error_code(exc)
        if code.startswith(_TRANSIENT) or status >= 500 or status == 429:
            raise StoreUnavailableError(f"can't {action} for now: {code}") from exc
        if code.startswith(_REFUSED) or status in (401, 403):
            hint = "check that the resource exists and that the role may use it"
            raise StoreUnavailableError(f"can't {action}: {code}; {hint}") from exc
        raise


class passed_over:  # noqa: N801 - as `contextlib.suppress`
    """Suppresses errors of the service with these codes, after which nothing is left to do."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: object, _traceback: object) -> bool:
        return isinstance(error, ClientError) and error_code(error) in self._codes


@contextmanager
def raised_as(error: OpxError, *codes: str) -> Iterator[None]:
    """Raises `error` for errors of the service with these codes."""
    try:
        yield
    except ClientError as exc:
        if error_code(exc) in codes:
            raise error from exc
        raise


def translated_pages(pages: Iterable[P], action: str) -> Iterator[P]:
    """Each page of a listing. Raises like `translated_errors`."""
    found = iter(pages)
    while True:
        with translated_errors(action):
            page = next(found, None)
        if page is None:
            return
        yield page


def answers(
    call: Callable[..., Any], request: Mapping[str, Any], action: str, *, mark: str = "NextToken", sent_as: str = ""
) -> Iterator[Any]:
    """The replies to a request, page by page. `mark` is the field with the token of the next page, `sent_as` its name
    in the next request, if that is another. Raises like `translated_errors`."""
    parameters = dict(request)
    while True:
        with translated_errors(action):
            answer = call(**parameters)
        yield answer
        if not answer.get(mark):
            return
        parameters[sent_as or mark] = answer[mark]
