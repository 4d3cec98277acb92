"""Records handled events in Powertools' idempotency table."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemNotFoundError

from opx.errors import StoreUnavailableError
from opx.ports.tables import IDEMPOTENCY
from opx_aws.vendor_errors import translated_errors

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

log = logging.getLogger(__name__)

KEPT_SECONDS = 24 * 60 * 60
"""EventBridge delivers an event for at most a day."""


class DynamoHandledEvents:
    """`HandledEvents` in DynamoDB: one consistent read per event, and one write when it is done.

    Powertools' decorator would also write an in-progress record first and hold back concurrent duplicates; the
    catalog's claims do that already, and with them one batch can go through the pipeline together. The table only
    saves work, so that while it is unavailable nothing counts as handled.
    """

    def __init__(self, client: DynamoDBClient, *, table_prefix: str = "") -> None:
        self._records = DynamoDBPersistenceLayer(
            table_name=table_prefix + IDEMPOTENCY.name,
            key_attr=IDEMPOTENCY.partition,
            expiry_attr=IDEMPOTENCY.ttl,
            boto3_client=client,
        )
        config = IdempotencyConfig(expires_after_seconds=KEPT_SECONDS, hash_function="sha256")
        self._records.configure(config, key_prefix="ingest")

    def has(self, body: str) -> bool:
        identity = event_identity(body)
        if identity is None:
            return False
        try:
            with translated_errors("read the idempotency table"):
                record = self._records.get_record(identity)
        except IdempotencyItemNotFoundError:
            return False
        except StoreUnavailableError:
            log.warning("can't read whether the event was handled before", exc_info=True)
            return False
        return record is not None and record.status == "COMPLETED"

    def remember(self, body: str) -> None:
        identity = event_identity(body)
        if identity is None:
            return
        try:
            with translated_errors("write the idempotency table"):
                self._records.save_success(identity, {})
        except StoreUnavailableError:
            log.warning("can't record that the event was handled", exc_info=True)


def event_identity(body: str) -> dict[str, str] | None:
    """Bucket, key and sequencer of an S3 event; None for anything else, and for an event without one of them."""
    try:
        detail = json.loads(body)["detail"]
        changed = detail["object"]
        found = {"bucket": detail["bucket"]["name"], "key": changed["key"], "sequencer": changed["sequencer"]}
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return found if all(isinstance(value, str) and value for value in found.values()) else None
