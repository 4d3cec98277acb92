"""Messages that wait for work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Message:
    """A received message. `receives` counts deliveries, this one included."""

    body: str
    receipt: str
    receives: int


class Queue(Protocol):
    """Messages delivered at least once, in no particular order, hidden while they are worked on."""

    def send(self, body: str, *, delay_seconds: int = 0) -> None:
        """Add a message of 1 to 262,144 bytes; delivered after `delay_seconds` (0-900). Raises `InvalidInputError`."""

    def receive(self, *, limit: int = 10, hide_seconds: int = 300) -> list[Message]:
        """Up to `limit` (1-10) visible messages, hidden from others for `hide_seconds`. Empty if there is none now."""

    def done(self, receipt: str) -> None:
        """Remove a received message. Doing so twice does nothing."""

    def retry(self, receipt: str, *, delay_seconds: int = 0) -> None:
        """Make a received message visible again after a delay. A message that is gone is ignored."""

    def waiting(self) -> int:
        """About how many messages there are, hidden and delayed ones included."""
