"""Commands that a running server of the same home answers: the same output, without starting anything."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from opx.edges.cli import forwarding
from opx.edges.cli.forwarding import SOCKET
from opx.operations.system import System
from opx.settings import Settings
from opx.system import bootstrap
from opx_serve import command_socket
from opx_serve.command_socket import CommandSocket

pytestmark = pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets here")

PROGRAM = """
import atexit, sys
from opx.system import command

def say():
    print("\\nloaded" if "click" in sys.modules else "\\nforwarded", file=sys.stderr)

atexit.register(say)
command()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home that has two documents, one of them a client's."""
    made = tmp_path_factory.mktemp("warm")
    (made / "disk.md").write_text("# Disk full\n\nDelete old logs in /var/log.\n")
    (made / "secret.md").write_text("# Vault of acme\n\nThe vault is sealed: call the two keepers.\n")
    for arguments in (["ingest", "disk.md"], ["--client", "acme", "ingest", "secret.md"]):
        assert run(made, *arguments).returncode == 0
    return made


@pytest.fixture(scope="module")
def warm(folder: Path) -> Iterator[Path]:
    """The folder, while `opx serve` runs on its home."""
    command = [sys.executable, "-c", PROGRAM, "serve", "--listen", "127.0.0.1:0", "--answers-only"]
    with subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "lists the routes" in process.stdout.readline()
        yield folder
        process.terminate()
        assert process.wait(30) == 0
    assert not (folder / ".opx" / SOCKET).exists()


@pytest.fixture
def other(folder: Path, tmp_path: Path) -> Path:
    """A folder with a home of the same documents, without a server."""
    shutil.copytree(folder / ".opx", tmp_path / ".opx", ignore=shutil.ignore_patterns(SOCKET))
    return tmp_path


@pytest.fixture
def system(other: Path) -> Iterator[System]:
    with bootstrap(Settings(home=str(other / ".opx"))) as made:
        yield made


def environment(folder: Path, **variables: str) -> dict[str, str]:
    return {"PATH": "", "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path), **variables}


def run(folder: Path, *arguments: str, text: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        input=text,
        cwd=folder,
        env=environment(folder, **variables),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def is_forwarded(done: subprocess.CompletedProcess[str]) -> bool:
    return done.stderr.rstrip().endswith("forwarded")


def shown(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The output without the receipt, which is another for each answer."""
    return [line for line in done.stdout.splitlines() if "outcome record" not in line]


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "disk", "full"],
        ["search", "--json", "nothing about eggs"],
        ["list"],
        ["show", "disk.md"],
        ["show", "nowhere.md"],
        ["search", "--mode", "wrong", "x"],
        ["--client", "acme", "search", "vault", "sealed"],
    ],
)
def test_output_and_exit_code_are_those_of_a_cold_command(warm: Path, arguments: list[str]) -> None:
    answered = run(warm, *arguments)
    (warm / ".opx" / SOCKET).rename(warm / "aside")
    cold = run(warm, *arguments)
    (warm / "aside").rename(warm / ".opx" / SOCKET)
    assert (is_forwarded(answered), is_forwarded(cold)) == (True, False)
    if "--json" not in arguments:
        assert shown(answered) == shown(cold)
    assert answered.returncode == cold.returncode
    assert answered.stderr.splitlines()[:-2] == cold.stderr.splitlines()[:-2]


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_output_ends_a_forwarded_command_quietly(warm: Path, closed: str) -> None:
    line = ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", PROGRAM, "search", "disk", "full"]
    done = subprocess.run(
        line, cwd=warm, env=environment(warm), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (141, "" if "2>" in closed else "\nforwarded\n")


def test_a_command_sees_what_its_client_may_see(warm: Path) -> None:
    assert "Vault" not in run(warm, "search", "vault", "sealed").stdout
    assert "Vault" in run(warm, "--client", "acme", "search", "vault", "sealed").stdout
    assert "Vault" in run(warm, "search", "vault", "sealed", OPX_CLIENT_ID="acme").stdout


def test_standard_input_is_sent(warm: Path) -> None:
    done = run(warm, "search", "-", text="disk full\n")
    assert (is_forwarded(done), "Disk full" in done.stdout) == (True, True)


@pytest.mark.parametrize(
    "arguments",
    [["ingest", "disk.md"], ["-v", "search", "disk"], ["search", "disk", "--receipt", "r.json"], ["--help"]],
)
def test_other_commands_run_by_themselves(warm: Path, arguments: list[str]) -> None:
    done = run(warm, *arguments)
    assert (is_forwarded(done), done.returncode) == (False, 0)


def test_other_settings_run_by_themselves(warm: Path) -> None:
    done = run(warm, "search", "disk", "full", OPX_RERANKER="off")
    assert (is_forwarded(done), "Disk full" in done.stdout) == (False, True)


def test_another_version_runs_by_itself(other: Path, system: System, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_socket, "__version__", "0.0.0")
    with CommandSocket(system, system.settings):
        done = run(other, "search", "disk", "full")
    assert (is_forwarded(done), "Disk full" in done.stdout) == (False, True)


def test_the_socket_of_a_dead_process_is_ignored_and_replaced(other: Path, system: System) -> None:
    path = other / ".opx" / SOCKET
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    done = run(other, "search", "disk", "full")
    assert (is_forwarded(done), "Disk full" in done.stdout) == (False, True)
    with CommandSocket(system, system.settings) as opened:
        assert not opened.remark
        assert is_forwarded(run(other, "search", "disk", "full"))
    assert not path.exists()


def test_a_second_server_leaves_the_socket_to_the_first(other: Path, system: System) -> None:
    with CommandSocket(system, system.settings):
        with CommandSocket(system, system.settings) as second:
            assert "another opx serve has it" in second.remark
        assert is_forwarded(run(other, "search", "disk", "full"))


def test_the_socket_is_its_owners_alone(warm: Path) -> None:
    assert stat.S_IMODE((warm / ".opx" / SOCKET).stat().st_mode) == 0o600


def test_a_path_that_is_too_long_is_a_remark(tmp_path: Path, system: System) -> None:
    far = tmp_path / ("x" * 120)
    far.mkdir()
    with CommandSocket(system, Settings(home=str(far))) as opened:
        assert "can't be opened" in opened.remark


def test_many_commands_at_once_get_their_own_answers(warm: Path) -> None:
    questions = [("disk full", "Disk full", ""), ("vault sealed", "Vault of acme", "acme")] * 8
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda one: run(warm, "search", one[0], OPX_CLIENT_ID=one[2]), questions))
    assert all(is_forwarded(one) for one in done)
    assert [title in one.stdout for one, (_, title, _) in zip(done, questions, strict=True)] == [True] * 16


@pytest.mark.parametrize(
    "sent", [b"", b"\0\0\0\2[]", b"\xff\xff\xff\xff", b"\0\0\0\5{nope", b'\0\0\0\x10{"version": 1}  ']
)
def test_a_malformed_request_harms_nobody(warm: Path, sent: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(warm / ".opx" / SOCKET))
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert is_forwarded(run(warm, "search", "disk", "full"))


def test_a_server_that_ends_in_between_is_an_error(other: Path) -> None:
    path = other / ".opx" / SOCKET
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(str(path))
        listener.listen()
        running = pool.submit(run, other, "search", "disk", "full")
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(forwarding.OUT + (4).to_bytes(4, "big") + b"half")
        done = running.result()
    assert (done.returncode, done.stdout) == (2, "half")
    assert "ended before the answer was complete" in done.stderr
