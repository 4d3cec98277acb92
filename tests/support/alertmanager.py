"""A real Alertmanager for measurements: one process on the loopback that notifies one webhook, gone when the block ends."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = ("prometheus-alertmanager", "alertmanager")
"""Debian's name of it (package prometheus-alertmanager), and its own."""
START_SECONDS = 20.0
REPEAT_SECONDS = 2
_CONFIGURATION = """\
route: {{receiver: knowledge, group_by: ['...'], group_wait: 0s, group_interval: 1s, repeat_interval: {repeat}s}}
receivers:
  - name: knowledge
    webhook_configs:
      - url: "{webhook}"
        send_resolved: true
        max_alerts: 100
        http_config: {{authorization: {{type: Bearer, credentials: "{token}"}}}}
"""


class LocalAlertmanager:
    """A started Alertmanager, to which alerts are sent as Prometheus does."""

    def __init__(self, port: int) -> None:
        self._address = f"http://127.0.0.1:{port}"

    def post(self, alerts: Sequence[Mapping[str, Any]]) -> None:
        """Sends alerts; they are resolved once their `endsAt` is past."""
        body, headers = json.dumps(alerts).encode(), {"content-type": "application/json"}
        request = urllib.request.Request(f"{self._address}/api/v2/alerts", body, headers)
        with urllib.request.urlopen(request, timeout=30):
            pass

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self._address}/-/ready", timeout=5) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


def alertmanager_program() -> str | None:
    """Path of the program; None where there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@contextmanager
def running_alertmanager(program: str, webhook: str, token: str) -> Iterator[LocalAlertmanager]:
    """A started Alertmanager that groups no alerts, and repeats notifications after `REPEAT_SECONDS`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with tempfile.TemporaryDirectory(prefix="opx-alertmanager-") as name:
        home = Path(name)
        configuration = _CONFIGURATION.format(webhook=webhook, token=token, repeat=REPEAT_SECONDS)
        (home / "alertmanager.yml").write_text(configuration)
        line = [program, f"--config.file={home}/alertmanager.yml", f"--storage.path={home}/data"]
        line += [f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="]
        with (home / "log").open("wb") as log, subprocess.Popen(line, stdout=log, stderr=log) as process:
            try:
                server = LocalAlertmanager(port)
                until = time.monotonic() + START_SECONDS
                while not server.is_ready():
                    if process.poll() is not None or time.monotonic() > until:
                        raise RuntimeError(f"Alertmanager doesn't start: {(home / 'log').read_text()[-2000:]}")
                    time.sleep(0.05)
                yield server
            finally:
                process.terminate()
