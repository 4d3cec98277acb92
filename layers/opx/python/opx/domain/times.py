"""Points in time as text: ISO 8601 in UTC, so that they sort as they happened."""

from __future__ import annotations

from datetime import UTC, datetime


def iso_time(seconds: float) -> str:
    """`2025-03-14T09:26:53Z` from seconds since the epoch."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
