"""Reasons to skip and reasons to fail when a node can't be started. No node is needed here."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.opensearch import jars
from tests.opensearch.jars import NodeError, NodeUnavailableError, node_files
from tests.opensearch.node import _Process, running_node

NAME = "server.jar"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Puts a program of this name on the path, on which there is nothing else but a shell's own."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/bin")

    def made(name: str, script: str = "") -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        (folder / name).chmod(0o755)

    return made


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache for a node that is one file."""
    pinned = tmp_path / "jars.sha256"
    pinned.write_text(f"{hashlib.sha256(b'good').hexdigest()}  {NAME}\n", encoding="ascii")
    monkeypatch.setattr(jars, "PINNED", pinned)
    return tmp_path / "cache"


def no_programs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


class TestFiles:
    def test_cached_files_need_no_maven(self, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        no_programs(monkeypatch, tmp_path)
        cache.mkdir()
        (cache / NAME).write_bytes(b"good")
        assert node_files(cache) == [cache / NAME]

    def test_missing_file_is_fetched(self, cache: Path, program: Callable[..., None]) -> None:
        program(
            "mvn",
            'for each; do case "$each" in -DoutputDirectory=*) printf good > "${each#*=}/server.jar";; esac; done',
        )
        assert node_files(cache) == [cache / NAME]

    @pytest.mark.parametrize("content", [b"bad", b""])
    def test_file_with_another_hash_is_a_failure(self, cache: Path, content: bytes) -> None:
        cache.mkdir()
        (cache / NAME).write_bytes(content)
        with pytest.raises(NodeError, match=r"server\.jar has the SHA-256"):
            node_files(cache)

    def test_file_that_is_not_resolved_any_more_is_a_failure(self, cache: Path, program: Callable[..., None]) -> None:
        program("mvn")
        with pytest.raises(NodeError, match=r"lists server\.jar"):
            node_files(cache)

    def test_no_maven_is_a_reason_to_skip(self, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        no_programs(monkeypatch, tmp_path)
        with pytest.raises(NodeUnavailableError, match="no Maven"):
            node_files(cache)

    @pytest.mark.parametrize(
        ("output", "error"),
        [
            ("[ERROR] Could not transfer artifact a:b:1 from central: Unknown host", NodeUnavailableError),
            ("[ERROR] Cannot access central in offline mode", NodeUnavailableError),
            ("[ERROR] Could not find artifact a:b:1 in central", NodeError),
            ("[ERROR] Non-parseable POM", NodeError),
        ],
    )
    def test_only_an_unreachable_registry_is_a_reason_to_skip(
        self, cache: Path, program: Callable[..., None], output: str, error: type[Exception]
    ) -> None:
        program("mvn", f"echo '{output}'; exit 1")
        with pytest.raises(error, match=output.removeprefix("[ERROR] ")):
            node_files(cache)


class TestJava:
    def test_no_java_is_a_reason_to_skip(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        no_programs(monkeypatch, tmp_path)
        with pytest.raises(NodeUnavailableError, match="needs a JDK"), running_node():
            pass

    def test_old_java_is_a_reason_to_skip(self, program: Callable[..., None]) -> None:
        program("javac")
        program("java", "echo 'openjdk version \"11.0.2\"' >&2")
        with pytest.raises(NodeUnavailableError, match=r"not openjdk version .11"), running_node():
            pass


class TestProcess:
    def test_node_that_ends_is_a_failure_with_its_log(self) -> None:
        process = _Process(["/bin/sh", "-c", "echo no memory; exit 1"])
        with pytest.raises(NodeError, match="ended; the end of its log:\nno memory"):
            process.wait_for_port(30)
        process.stop()

    def test_node_that_does_not_start_in_time_is_a_failure_with_its_log(self) -> None:
        process = _Process(["/bin/sh", "-c", "echo starting; cat"])
        with pytest.raises(NodeError, match=r"no address within 0\.2 s.*\nstarting"):
            process.wait_for_port(0.2)
        process.stop()

    def test_node_that_listens_has_its_port(self) -> None:
        process = _Process(["/bin/sh", "-c", "echo listening on 127.0.0.1:4711; cat"])
        assert process.wait_for_port(30) == 4711
        process.stop()
