"""A running emulator of AWS: one process on the loopback with an empty account, gone when the block ends.

It is reached over TLS and checks signatures and IAM policies, as what is deployed asks for both: buckets and queues
refuse connections without TLS, and each function may do just what its role says.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import psutil
from botocore.config import Config

from tests.deployment.installation import EmulatorUnavailableError, Installation

ACCOUNT = "111122223333"
REGION = "eu-central-1"
START_SECONDS = 300
_HANG_UPS = re.compile(r"\S+ \S+ ERROR \[asyncio\](?:(?!\n\d{4}-).)*SSL shutdown timed out\n", re.DOTALL)
"""Start of a log message of its server about clients that disconnect abruptly."""
_APIS = "*.execute-api.127.0.0.1"
"""Hosts of its HTTP APIs, which `hosts/sitecustomize.py` resolves."""

APPLICATION = Path(__file__).parent / "emulated" / "application.py"
_SUPPORTED = "import json; from ministack.services.cloudformation.provisioners import _RESOURCE_HANDLERS as known; "
_SUPPORTED += "print(json.dumps(sorted(known)))"


@dataclass(frozen=True, slots=True)
class Visited:
    """A reply to a browser. Names of headers are in lower case."""

    status: int
    sent: Mapping[str, str]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.sent.items()}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


class Emulator:
    """`environment` lets programs of this machine (CDK, boto3) take it for AWS."""

    def __init__(self, installation: Installation, folder: Path, endpoints: Mapping[str, str]) -> None:
        self._installation = installation
        self._folder = folder
        self._endpoints = endpoints
        self._certificate = folder / "server.crt"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self._port}"

    @cached_property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_CA_BUNDLE": str(self._certificate),
            "NODE_EXTRA_CA_CERTS": str(self._certificate),
        }

    def client(self, service: str) -> Any:
        """A client of the account's owner, who may do everything."""
        session = boto3.Session("test", "test", region_name=REGION)
        config = Config(read_timeout=300, retries={"total_max_attempts": 1})
        return session.client(  # type: ignore[call-overload]
            service, endpoint_url=self.endpoint, verify=str(self._certificate), config=config
        )

    def call(self, base: str, request: Any) -> tuple[int, Any]:
        """Send a prepared botocore request to an address under `base`, whose host only the emulator knows; status and
        JSON body."""
        url = request.url.replace(base, self.endpoint, 1)
        headers = {**request.headers, "Host": urlsplit(base).netloc}
        sent = urllib.request.Request(url, request.body, headers, method=request.method)
        trusted = ssl.create_default_context(cafile=str(self._certificate))
        try:
            with urllib.request.urlopen(sent, timeout=300, context=trusted) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, json.loads(exc.read())

    def visit(
        self,
        host: str,
        path: str,
        *,
        method: str = "GET",
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Visited:
        """Send a request to a host that only the emulator knows, as a browser does that follows no redirects."""
        sent = urllib.request.Request(self.endpoint + path, body, {**(headers or {}), "Host": host}, method=method)
        trusted = ssl.create_default_context(cafile=str(self._certificate))
        opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=trusted), _NoRedirects())
        try:
            with opener.open(sent, timeout=300) as answer:
                return Visited(answer.status, dict(answer.headers.items()), answer.read())
        except urllib.error.HTTPError as exc:
            with exc:
                return Visited(exc.code, dict(exc.headers.items()), exc.read())

    def resource_types(self) -> frozenset[str]:
        """The types that its CloudFormation takes."""
        command = [str(self._installation.executable), "-c", _SUPPORTED]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=self._own_environment())
        return frozenset(json.loads(done.stdout))

    def workers(self, function: str) -> list[psutil.Process]:
        """The processes in which a function runs, at work or waiting for it."""
        assert self._process is not None
        mark = f"ministack-lambda-{function}-"
        found = psutil.Process(self._process.pid).children(recursive=True)
        return [process for process in found if any(mark in part for part in process.cmdline())]

    def log_tail(self, lines: int = 200) -> str:
        text = _HANG_UPS.sub("", (self._folder / "log").read_text(errors="replace"))
        return "\n".join(text.splitlines()[-lines:])

    def start(self) -> None:
        self._make_certificate()
        bind = ["--bind", f"127.0.0.1:{self._port}", "--keep-alive", "75"]
        tls = ["--certfile", str(self._certificate), "--keyfile", str(self._folder / "server.key")]
        command = [
            str(self._installation.executable),
            "-m",
            "hypercorn",
            f"{APPLICATION}:app",
            "--workers",
            "0",
            *bind,
            *tls,
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, env=self._own_environment()
            )
        until = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"the emulator did not start:\n{self.log_tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """End the emulator and the functions in it."""
        if self._process is None:
            return
        family = psutil.Process(self._process.pid).children(recursive=True)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for process in family:
            if process.is_running():
                process.kill()
        psutil.wait_procs(family, timeout=10)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def _own_environment(self) -> dict[str, str]:
        """Functions inherit this, so that nothing of the surrounding environment may be in it."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self._folder),
            "TMPDIR": str(self._folder),
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self._port),
            "MINISTACK_HOST": "127.0.0.1",
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_REGION": REGION,
            "USE_SSL": "1",
            "MINISTACK_SSL_CERT": str(self._certificate),
            "MINISTACK_SSL_KEY": str(self._folder / "server.key"),
            "AUTH": "true",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            **self._endpoints,
        }

    def _make_certificate(self) -> None:
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        command += [
            "-addext",
            f"subjectAltName=IP:127.0.0.1,DNS:{_APIS}",
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ]
        command += ["-keyout", str(self._folder / "server.key"), "-out", str(self._certificate)]
        subprocess.run(command, check=True, capture_output=True)


@contextmanager
def running_emulator(installation: Installation, *, endpoints: Mapping[str, str]) -> Iterator[Emulator]:
    """A started emulator. `endpoints`: environment variables of boto3 that send functions elsewhere for a service."""
    if not shutil.which("openssl"):
        raise EmulatorUnavailableError("its certificate is made with openssl, which isn't here")
    with tempfile.TemporaryDirectory(prefix="opx-emulator-") as folder:
        emulator = Emulator(installation, Path(folder), endpoints)
        try:
            emulator.start()
            yield emulator
        finally:
            emulator.stop()


def _free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])
