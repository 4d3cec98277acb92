"""Answers alerts in a chat channel: takes Alertmanager's webhook, finds the runbook, and posts it to the channel's webhook.

    OPX_HOME=.opx CHAT_WEBHOOK=https://hooks.slack.com/services/... python -m examples.alertmanager_to_chat 127.0.0.1:9099

In alertmanager.yml: `receivers: [{name: opx, webhook_configs: [{url: "http://127.0.0.1:9099"}]}]`. Slack, Mattermost,
Rocket.Chat and Google Chat take such a post. Resolved alerts are not answered.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.knowledge import open_system
from opx.domain.queries import Band, QueryConfig
from opx.domain.results import RetrievalResult
from opx.domain.scopes import Identity
from opx.retrieval.query import KnowledgeQuery

CONFIG = QueryConfig(categories=("runbooks",), min_confidence=0.2, max_results=3)
MOST_BYTES = 1_000_000


def posts(group: dict[str, Any], search: KnowledgeQuery) -> Iterator[str]:
    """A message for each firing alert of a group."""
    for alert in group["alerts"]:
        if alert["status"] == "firing":
            labels, notes = alert["labels"], alert.get("annotations", {})
            stated = [labels.get("alertname", ""), notes.get("summary", ""), notes.get("description", "")]
            question = " ".join(filter(None, stated))
            yield message(labels.get("alertname", "An alert"), search.search(question, CONFIG).results)


def message(alert: str, found: Sequence[RetrievalResult]) -> str:
    if not found:
        return f"*{alert}* fires, and no runbook is about it."
    lines = [f"• {'' if one.band is Band.SURE else f'({one.band}) '}{one.title} — {one.source}" for one in found]
    return "\n".join([f"*{alert}* fires. Runbooks:", *dict.fromkeys(lines)])


def post(address: str, text: str) -> None:
    body = json.dumps({"text": text}).encode()
    request = urllib.request.Request(address, body, {"content-type": "application/json"})  # noqa: S310 - the operator's address
    urllib.request.urlopen(request, timeout=10).close()  # noqa: S310


def handler(answer: Callable[[dict[str, Any]], None]) -> type[BaseHTTPRequestHandler]:
    class Webhook(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Replies 400 to anything but Alertmanager, and 502 if the channel is unreachable: then Alertmanager retries."""
            try:
                answer(json.loads(self.rfile.read(min(int(self.headers.get("content-length", 0)), MOST_BYTES))))
                status = 204
            except (ValueError, KeyError, TypeError, AttributeError):
                status = 400
            except OSError:
                status = 502
            self.send_response(status)
            self.end_headers()

    return Webhook


def main(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    channel = os.environ["CHAT_WEBHOOK"]
    with open_system() as system:
        search = system.questions.for_reader(Identity())

        def answer(group: dict[str, Any]) -> None:
            for text in list(posts(group, search)):
                post(channel, text)

        server = ThreadingHTTPServer((host, int(port)), handler(answer))
        print(f"listening on {server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
