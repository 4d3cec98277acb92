"""Steps that tests of curation share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tests.console.served import Console

if TYPE_CHECKING:
    from playwright.sync_api import Page

TEXT = """---
review_by: 2020-01-01
---
# Router {name} drops packets

1. Look at the counters: `ip -s link`.
2. Restart it: `systemctl restart {name}`.
"""


def go(page: Page, console: Console, path: str) -> None:
    page.goto(f"http://{console.host}/console/#/{path}")


def eventually(found: Callable[[], Any]) -> Any:
    """The first result that is true, within half a minute."""
    for _ in range(60):
        if result := found():
            return result
        time.sleep(0.5)
    raise AssertionError("it didn't happen")


def written(console: Console, source: str, text: str) -> str:
    """Writes a new document, and returns its id once it is ingested."""
    key = console.api("PUT", "/texts", {"source": source, "text": text})["objectKey"]

    def state() -> str:
        (found,) = console.api("POST", "/objects/states", {"objectKeys": [key]})["states"]
        assert found["state"] != "failed", found
        return str(found.get("documentId", "")) if found["state"] != "waiting" else ""

    return str(eventually(state))


def document_of(console: Console, document_id: str) -> dict[str, Any]:
    found: dict[str, Any] = console.api("GET", f"/documents/{document_id}")["document"]
    return found


def text_of(console: Console, source: str) -> str:
    return str(console.api("GET", f"/texts?source={source}")["text"])


def gaps(console: Console) -> dict[str, dict[str, Any]]:
    """All gaps by their question."""
    return {one["question"]: one for one in console.api("GET", "/gaps?settled=true")["gaps"]}
