"""A server over LanceDB as one would write it: `python -m tests.benchmarks.peers.lance_server FOLDER HOME HOST:PORT`."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.benchmarks.peers.engines import RESULTS, Embedding, LanceDb

folder, home, address = sys.argv[1:]
engine = LanceDb(Path(folder), Embedding(Path(home)))
engine.open()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the body waits 40 ms for the acknowledgement of the headers
    wbufsize = -1  # headers and body in one write

    def do_POST(self) -> None:
        question = json.loads(self.rfile.read(int(self.headers["content-length"])))["query"]
        found = engine.search(question, None, RESULTS)
        self.reply({"results": [{"metadata": {"chunkId": one}} for one in found]})

    def do_GET(self) -> None:
        self.reply({"status": "ok"})

    def reply(self, data: object) -> None:
        body = json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Logs nothing."""


class Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True


host, _, port = address.rpartition(":")
Server((host, int(port)), Handler).serve_forever()
