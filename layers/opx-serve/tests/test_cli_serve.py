"""`opx serve` as a command: addresses, tokens, the work beside, and its end."""

from __future__ import annotations

import json
import logging
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from opx.edges.cli.main import Launch, cli
from opx.operations.system import System
from opx.system import connect
from opx_serve import commands as serving
from tests.support.cli_support import HELD_BY, Opx, environment, word_services
from tests.support.serving_support import LocalServer

RUNBOOK = "# Router\n\nRestart the router."


@contextmanager
def started(opx: Opx, *options: str, **more: Any) -> Iterator[tuple[subprocess.Popen[str], LocalServer]]:
    """The command as a process, and its server; the process is killed in the end if it still runs."""
    process = opx.start("serve", "--listen", "127.0.0.1:0", *options, **more)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = re.search(r"http://(\S+)/docs", line)
        assert address, (line, process.stderr and process.stderr.read())
        yield process, LocalServer(address[1], [], (opx.home / "token").read_text().strip())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_request_in_progress(opx: Opx, how: int) -> None:
    body = b'{"query": "router"}'
    with started(opx) as (process, server), server.connect() as connection:
        head = f"POST /knowledge/default/query HTTP/1.1\r\nhost: {server.address}\r\ncontent-length: {len(body)}\r\n"
        head += f"authorization: Bearer {server.token}\r\n"
        connection.sendall(f"{head}content-type: application/json\r\nexpect: 100-continue\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")  # the request is in progress
        process.send_signal(how)
        while server.is_open():
            time.sleep(0.05)
        connection.sendall(body)
        assert connection.recv(13) == b"HTTP/1.1 200 "
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.splitlines()[-1].endswith("stopped"), errors) == (0, True, "")


def is_open(server: LocalServer) -> bool:
    try:
        server.connect().close()
    except ConnectionError:
        return False
    return True


def until_healthy(server: LocalServer) -> None:
    while (found := server("GET", "/healthz")).status != 200:
        assert found.refusal == (503, "starting")
        time.sleep(0.05)


def test_the_first_answer_after_it_is_healthy_loads_no_code(opx: Opx, tmp_path: Path) -> None:
    opx("ingest", opx.write("router.md", RUNBOOK))
    imports = tmp_path / "imports"
    env = environment(PYTHONPROFILEIMPORTTIME="1")
    with imports.open("w") as file, started(opx, "--answers-only", env=env, stderr=file) as (_, server):
        until_healthy(server)
        before = imports.stat().st_size
        body = {"query": "Restart the rooter, which drops packets?"}
        assert server("POST", "/knowledge/default/query", body).json["documents"]
        names = [line.rpartition(" ")[2] for line in imports.read_text()[before:].splitlines()]
    assert names in ([], ["opx.records.gaps.recording"])  # after the reply


def test_code_for_documents_is_loaded_if_only_clients_have_some(opx: Opx, tmp_path: Path) -> None:
    opx("--client", "acme", "ingest", opx.write("router.md", RUNBOOK))
    imports = tmp_path / "imports"
    env = environment(PYTHONPROFILEIMPORTTIME="1")
    with imports.open("w") as file, started(opx, "--answers-only", env=env, stderr=file) as (_, server):
        until_healthy(server)
        assert "opx.retrieval.assembly\n" in imports.read_text()


def test_it_listens_while_it_loads_and_its_health_is_starting(opx: Opx, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.touch()
    with started(opx, "--answers-only", env=environment(**{HELD_BY: str(held)})) as (_, server):
        found = server("GET", "/healthz")
        assert (found.refusal, found.headers["retry-after"]) == ((503, "starting"), "5")
        assert server("GET", "/status").status == 200
        held.unlink()
        until_healthy(server)


def test_loading_leaves_no_record(opx: Opx) -> None:
    opx("ingest", opx.write("router.md", RUNBOOK))
    with started(opx, "--answers-only") as (_, server):
        until_healthy(server)
        assert server("GET", "/audit").json["records"] == []
        assert server("GET", "/gaps").json["gaps"] == []
        assert "opx_queries_total{" not in server("GET", "/metrics").data.decode()


def test_health_is_that_of_the_index_even_if_the_model_fails(opx: Opx, tmp_path: Path) -> None:
    held = tmp_path / "held"
    held.mkdir()
    with started(opx, "--answers-only", env=environment(**{HELD_BY: str(held)})) as (process, server):
        until_healthy(server)
        process.kill()
        assert "embedding failed" in process.communicate()[1]


def test_documents_that_arrive_are_ingested_beside(opx: Opx) -> None:
    with started(opx) as (_, server):
        body = {"document": RUNBOOK, "metadata": {"source": "router.md"}}
        assert server("POST", "/ingest/internal/runbooks/procedures", body).status == 202
        while not server("GET", "/documents").json["documents"]:
            time.sleep(0.1)


def test_it_can_leave_work_to_another_process(opx: Opx) -> None:
    with started(opx, "--answers-only") as (_, server):
        body = {"document": RUNBOOK, "metadata": {"source": "router.md"}}
        assert server("POST", "/ingest/internal/runbooks/procedures", body).status == 202
        assert server("GET", "/status").json["waiting"] == 1
    opx("run", "--once")
    assert '"documents": 1' in opx("status", "--json").stdout


def test_the_line_that_it_prints_works_in_a_shell(opx: Opx) -> None:
    with started(opx) as (process, _):
        assert process.stdout is not None
        command = process.stdout.readline().strip()
        found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    assert (command.startswith("curl "), json.loads(found.stdout)["documents"]) == (True, 0)


def through(opx: Opx, address: str) -> Result:
    """The state of the system at an address."""
    launch = Launch(word_services, connect, {"OPX_HOME": str(opx.home)})
    return CliRunner().invoke(cli, ["--api", address, "status", "--json"], obj=launch, prog_name="opx")


def test_commands_of_this_machine_need_no_token_of_their_own(opx: Opx) -> None:
    with started(opx) as (_, server):
        found = through(opx, f"http://{server.address}")
        assert (found.exit_code, json.loads(found.stdout)["api"]) == (0, f"http://{server.address}"), found.stderr
        (opx.home / "token").write_text("another-token-than-the-servers\n")
        assert "doesn't accept the token" in through(opx, f"http://{server.address}").stderr


def test_an_address_that_is_none_is_named(opx: Opx) -> None:
    found = through(opx, "http://[")
    assert (found.exit_code, "'http://[' is no address of an API" in found.stderr) == (2, True)


@pytest.mark.parametrize(("token", "status"), [("", 401), ("guess", 401), (None, 200)])
def test_its_tools_over_http_need_the_token(opx: Opx, token: str | None, status: int) -> None:
    process = opx.start("mcp", "--listen", "127.0.0.1:0")
    try:
        assert process.stderr is not None
        address = re.search(r"http://(\S+)/mcp", process.stderr.readline())
        assert address
        assert "$(cat " in process.stderr.readline()
        server = LocalServer(address[1], [], (opx.home / "token").read_text().strip())
        headers = {"accept": "application/json, text/event-stream"}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
        assert server("POST", "/mcp", body, token=token, headers=headers).status == status
        if token is None:
            assert server("POST", "/mcp", body, headers={**headers, "origin": "http://localhost:3000"}).status == 403
            assert server("POST", "/mcp", body, headers={**headers, "host": "localhost:1"}).status == 421
    finally:
        process.kill()
        process.communicate()


def test_its_tools_at_an_address_of_others_need_a_configured_token(opx: Opx) -> None:
    found = opx("mcp", "--listen", "0.0.0.0:0")
    assert (found.exit_code, "give a token" in found.stderr) == (2, True)


def test_others_must_not_reach_it_without_a_token(opx: Opx) -> None:
    found = opx("serve", "--listen", "0.0.0.0:0")
    assert (found.exit_code, "give a token" in found.stderr) == (2, True)


def test_a_short_and_a_missing_token_are_refused(opx: Opx) -> None:
    assert "opx secret set t" in opx("serve", "--token-secret", "t").stderr
    opx("secret", "set", "t", stdin="short")
    found = opx("serve", "--token-secret", "t")
    assert (found.exit_code, "needs 16 ASCII characters" in found.stderr) == (2, True)


def test_an_unknown_scope_is_named_with_file_and_line(opx: Opx, tmp_path: Path) -> None:
    file = tmp_path / "knowledge.yaml"
    text = Path("corpus/knowledge.yaml").read_text(encoding="utf-8").replace("\ntokens: {}\n", "\n")
    file.write_text(text + "\ntokens:\n  bot: {secret: s, scopes: [opx/root]}\n", encoding="utf-8")
    found = opx("serve", OPX_KNOWLEDGE_FILE=str(file))
    line = len(file.read_text(encoding="utf-8").splitlines())
    assert f"{file}:{line}: unknown scope 'opx/root'" in " ".join(found.stderr.split())


def test_an_address_in_use_is_reported(opx: Opx) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used:
        found = opx("serve", "--listen", f"127.0.0.1:{used.getsockname()[1]}")
    assert (found.exit_code, "choose another address or port" in found.stderr) == (2, True)


def test_a_home_of_a_newer_version_is_refused(opx: Opx) -> None:
    opx.home.mkdir()
    (opx.home / "format.json").write_text('{"format": 99, "program": "9.9.9"}')
    found = opx("serve", "--listen", "127.0.0.1:0")
    assert (found.exit_code != 0, "was written by opx 9.9.9" in found.stderr) == (True, True)


def test_run_warns_of_an_address_that_others_reach(opx: Opx) -> None:
    process = opx.start("run", "--listen", "0.0.0.0:0")
    assert process.stderr is not None
    assert process.stdout is not None
    line = process.stderr.readline()
    while "running with" not in process.stdout.readline():  # from then on it ends by itself
        pass
    process.terminate()
    process.communicate(timeout=60)
    assert (process.returncode, "others can reach 0.0.0.0:" in line) == (0, True)


def test_scheduled_work_goes_on_after_an_error(
    opx: Opx, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serving, "AGAIN_SECONDS", 0.0)
    make, ingested = serving._runner, threading.Event()
    failures = [OSError("the disk is full"), RuntimeError("a bug")]

    def failing_at_first(services: System) -> Any:
        if failures:
            raise failures.pop(0)
        ingested.set()
        return make(services)

    monkeypatch.setattr(serving, "_runner", failing_at_first)
    woken, stopped = threading.Event(), threading.Event()
    with opx.services() as services:
        with ExitStack() as stack:
            serving._work_beside(services, woken, stopped, stack)
            assert ingested.wait(60)
        services.manager.put_document("runbooks/procedures", RUNBOOK, {"source": "router.md"})
    output = capsys.readouterr().out
    assert "OSError: the disk is full" in output
    assert "RuntimeError: a bug" in output


def test_errors_are_logged_also_without_verbose(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("opx"), "handlers", [])  # those of functions that other tests called
    logger = logging.getLogger("opx.edges.failures")
    with ExitStack() as stack:
        serving._log_errors(stack)
        logger.error("x-error-x")
        logger.warning("x-warning-x")
    logger.error("x-later-x")
    errors = capsys.readouterr().err
    assert [marker in errors for marker in ("x-error-x", "x-warning-x", "x-later-x")] == [True, False, False]


@pytest.mark.parametrize("command", ["serve", "console", "run", "mcp"])
def test_a_port_alone_is_refused_with_a_hint(tmp_path: Path, command: str) -> None:
    opx = Opx(tmp_path)
    for given in (("--port", "8899"), ("--port=8899",)):
        found = opx(command, *given)
        assert found.exit_code == 2
        assert "--listen 127.0.0.1:8899" in found.stderr
    assert "--port" not in opx(command, "--help").stdout
