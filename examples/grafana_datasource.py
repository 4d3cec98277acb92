"""Shows runbooks and open gaps in Grafana: a data source for its JSON plugin (simpod-json-datasource).

    OPX_HOME=.opx python -m examples.grafana_datasource 127.0.0.1:9098

Metrics: `runbooks`, with the question in the payload `{"query": "$alertname"}`, and `gaps`, questions without an answer. Both
are tables. Grafana's server must reach the address; put a proxy with a password before an address that others can reach.
"""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from examples.knowledge import open_system
from opx.domain.queries import QueryConfig
from opx.domain.scopes import Identity
from opx.edges.calling import LocalClient
from opx.operations.context import Caller, Context
from opx.operations.questions import ListGaps, list_gaps
from opx.system import System

CONFIG = QueryConfig(categories=("runbooks",), min_confidence=0.2, max_results=10)
METRICS = [
    {"value": "runbooks", "label": "Runbooks for a question", "payloads": [{"name": "query", "type": "input"}]},
    {"value": "gaps", "label": "Open gaps"},
]
MOST_BYTES = 1_000_000


def table(columns: dict[str, str], rows: list[list[Any]]) -> dict[str, Any]:
    return {"type": "table", "columns": [{"text": name, "type": kind} for name, kind in columns.items()], "rows": rows}


def runbooks(system: System, question: str) -> dict[str, Any]:
    found = system.questions.for_reader(Identity()).search(question, CONFIG).results if question.strip() else []
    rows = [[one.title, one.section, str(one.band), one.score, one.source] for one in found]
    return table({"page": "string", "section": "string", "band": "string", "score": "number", "source": "string"}, rows)


def gaps(system: System) -> dict[str, Any]:
    client = LocalClient(Context(system, Caller(Identity(), owns_system=True)))
    found = client.call(list_gaps, ListGaps()).gaps
    rows = [[one.question, one.count, one.callers, one.last_asked_at, one.owner] for one in found]
    columns = {"question": "string", "count": "number", "callers": "number", "last": "time", "owner": "string"}
    return table(columns, rows)


def answered(system: System, path: str, body: dict[str, Any]) -> Any:
    """The reply to a request of the plugin; None for an unknown path."""
    if path == "/metrics":
        return METRICS
    if path != "/query":
        return {"status": "ok"} if path == "/" else None
    return [found for target in body["targets"] if (found := shown(system, target)) is not None]


def shown(system: System, target: dict[str, Any]) -> dict[str, Any] | None:
    if target["target"] == "runbooks":
        return runbooks(system, str((target.get("payload") or {}).get("query", "")))
    return gaps(system) if target["target"] == "gaps" else None


def handler(system: System) -> type[BaseHTTPRequestHandler]:
    class DataSource(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The test of the connection."""
            self.reply({})

        def do_POST(self) -> None:
            try:
                body = json.loads(self.rfile.read(min(int(self.headers.get("content-length", 0)), MOST_BYTES)) or "{}")
                self.reply(body)
            except (ValueError, KeyError, TypeError, AttributeError):
                self.send_error(400)

        def reply(self, body: dict[str, Any]) -> None:
            found = answered(system, self.path, body)
            data = json.dumps(found).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return DataSource


def main(listen: str) -> None:
    host, _, port = listen.rpartition(":")
    with open_system() as system:
        server = ThreadingHTTPServer((host, int(port)), handler(system))
        print(f"listening on {server.server_address[1]}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
