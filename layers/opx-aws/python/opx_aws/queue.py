"""Implements queues in SQS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opx.adapters.limits import MAX_HIDE_SECONDS, MAX_RECEIVED, check_message, check_whole
from opx.ports import Message
from opx_aws.vendor_errors import passed_over, translated_errors

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

GONE = ("MessageNotInflight", "ReceiptHandleIsInvalid", "InvalidParameterValue", "InvalidIdFormat")
"""SQS's errors for a message that was removed, or whose receipt is too old."""


class SqsQueue:
    """A `Queue` in SQS (a standard queue).

    `wait_seconds` (0-20): how long `receive` waits for a message. With 0 SQS queries only some of its servers and may miss
    the few messages of a short queue.
    """

    def __init__(self, client: SQSClient, url: str, *, wait_seconds: int = 1) -> None:
        self._client = client
        self._url = url
        self._wait_seconds = wait_seconds

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        check_message(body, delay_seconds)
        with translated_errors(f"send to {self._url}"):
            self._client.send_message(QueueUrl=self._url, MessageBody=body, DelaySeconds=delay_seconds)

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        check_whole("limit", limit, 1, MAX_RECEIVED)
        check_whole("hide_seconds", hide_seconds, 0, MAX_HIDE_SECONDS)
        with translated_errors(f"receive from {self._url}"):
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=limit,
                VisibilityTimeout=hide_seconds,
                WaitTimeSeconds=self._wait_seconds,
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [
            Message(message["Body"], message["ReceiptHandle"], int(message["Attributes"]["ApproximateReceiveCount"]))
            for message in answer.get("Messages", [])
        ]

    def done(self, receipt: str) -> None:
        with translated_errors(f"remove a message from {self._url}"), passed_over(*GONE):
            self._client.delete_message(QueueUrl=self._url, ReceiptHandle=receipt)

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        check_whole("delay_seconds", delay_seconds, 0, MAX_HIDE_SECONDS)
        with translated_errors(f"return a message to {self._url}"), passed_over(*GONE):
            self._client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt, VisibilityTimeout=delay_seconds
            )

    def waiting(self) -> int:
        with translated_errors(f"count the messages of {self._url}"):
            answer = self._client.get_queue_attributes(
                QueueUrl=self._url,
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                    "ApproximateNumberOfMessagesDelayed",
                ],
            )
        return sum(int(count) for count in answer["Attributes"].values())
