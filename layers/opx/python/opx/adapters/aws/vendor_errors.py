"""Translates errors of AWS to those of the library, and spaces the tries of requests to a busy service."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from botocore.exceptions import (
    ClientError,
    ConnectionError,  # noqa: A004 - botocore's own
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    TokenRetrievalError,
)

from opx.errors import StoreUnavailableError

_jitter = random.SystemRandom()


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waiting with jitter: `attempts` tries, pauses of `base`, 2 x `base`, ... up to `longest` seconds.

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


def error_code(error: ClientError) -> str:
    """The service's code. Queues prefix theirs: `AWS.SimpleQueueService.NonExistentQueue`."""
    return error.response.get("Error", {}).get("Code", "").rpartition(".")[2]


def told(error: Exception) -> str:
    """What went wrong, for an error message. What is wrong with a request is told by its code alone: the rest may quote
    the text in it."""
    if isinstance(error, ClientError) and error_code(error) == "ValidationException":
        return "ValidationException"
    return str(error)


@contextmanager
def translated_errors(action: str) -> Iterator[None]:
    """Raise `StoreUnavailableError` if the service can't be reached, fails, throttles, or refuses the caller.

    What is wrong with the request itself goes through: it is a mistake of ours.
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
