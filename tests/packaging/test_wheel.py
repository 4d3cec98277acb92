"""The wheels as people install them: built, installed into an empty environment, and used in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import opx
import opx_serve
from infra.constructs.layer_contents import LAYERS, ROOT

pytestmark = [pytest.mark.packaging, pytest.mark.enable_socket, pytest.mark.timeout(600)]

UV = Path(sys.executable).parent / "uv"
DISTRIBUTIONS = [found.parent for found in sorted(LAYERS.glob("opx-*/pyproject.toml"))]
LARGEST = 250 * 1000 * 1000
"""Bytes of the default set, installed."""


def uv(*arguments: str) -> None:
    done = subprocess.run([str(UV), *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheel and sdist; the wheel is built from the sdist. And the wheels of the distributions beside it."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", str(folder), str(ROOT))
    for project in DISTRIBUTIONS:
        uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(project))
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (found,) = dist.glob("opx_knowledge-*.whl")
    return found


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels of the distributions that every installation has, in a folder."""
    folder = tmp_path_factory.mktemp("parts")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    for name in needed:
        if name.startswith("opx-"):
            uv("build", "--quiet", "--wheel", "--out-dir", str(folder), str(ROOT / "layers" / name))
    return folder


class Environment:
    """A Python environment with nothing but the wheels, used from an empty folder without the variables of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        uv("venv", "--quiet", "--python", sys.executable, str(folder / "env"))
        self.python = folder / "env" / "bin" / "python"
        self.opx = folder / "env" / "bin" / "opx"

    def install(self, *what: str) -> None:
        uv("pip", "install", "--quiet", "--python", str(self.python), *what)

    @property
    def variables(self) -> dict[str, str]:
        return {"HOME": str(self.folder), "PATH": os.defpath, "TERM": "dumb"}

    def run(self, *arguments: str, code: int = 0) -> str:
        done = subprocess.run(
            [str(self.opx), *arguments],
            cwd=self.work,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == code, done.stderr + done.stdout
        return done.stdout + done.stderr

    @property
    def size(self) -> int:
        packages = next((self.folder / "env" / "lib").glob("python*/site-packages"))
        files = [file for file in packages.rglob("*") if file.is_file() and file.suffix != ".pyc"]
        return sum(file.stat().st_size for file in files)


@pytest.fixture(scope="module")
def environment(wheel: Path, parts: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("user"))
    made.install("--find-links", str(wheel.parent), str(wheel))
    return made


@pytest.fixture(scope="module")
def demo(environment: Environment) -> str:
    """The output of `opx demo`; the example corpus is in the environment's home from then on."""
    return environment.run("demo")


def shipped(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_of(package: Path) -> set[str]:
    """Files of a package, also those of the console if it was built, as they are named in a wheel."""
    files = (file for file in package.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    return {f"{package.name}/{file.relative_to(package).as_posix()}" for file in files}


@pytest.fixture
def console() -> Iterator[Path]:
    """A built console in the package of the server, unless there is one."""
    folder = Path(opx_serve.__file__).parent / "console_files"
    if folder.exists():
        yield folder
        return
    folder.mkdir()
    (folder / "index.html").write_text("<title>OPX</title>")
    yield folder
    shutil.rmtree(folder)


def test_all_data_files_and_the_corpus_are_in_the_wheel(wheel: Path) -> None:
    assert files_of(Path(opx.__file__).parent) <= shipped(wheel)
    corpus = ROOT / "corpus"
    assert {
        f"opx/data/{file.relative_to(corpus).as_posix()}" for file in corpus.rglob("*") if file.is_file()
    } <= shipped(wheel)


def test_a_built_console_is_in_the_wheel_of_the_server(console: Path, tmp_path: Path) -> None:
    uv("build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(LAYERS / "opx-serve"))
    (built,) = tmp_path.glob("*.whl")
    assert f"opx_serve/{console.name}/index.html" in shipped(built)
    assert files_of(console.parent) <= shipped(built)


def test_the_default_set_is_small(environment: Environment) -> None:
    print(f"installed, without compiled modules: {environment.size / 1e6:.0f} MB")
    assert environment.size < LARGEST


def test_the_demo_and_searches_work(environment: Environment, demo: str) -> None:
    assert "Done in" in demo
    assert "1. Kubernetes persistent volume full" in environment.run("search", "kafka", "disk", "full")
    (environment.work / "notes.csv").write_text("code,meaning\nPAY-4017,gateway token expired\n")
    environment.run("ingest", "notes.csv")
    assert "PAY-4017" in environment.run("search", "PAY-4017")


def test_a_missing_extra_is_named(environment: Environment) -> None:
    assert "pip install 'opx-knowledge[mcp]'" in environment.run("mcp", code=2)
    assert "pip install 'opx-knowledge[serve]'" in environment.run("serve", code=2)
    (environment.work / "page.html").write_text("<html><body><h1>Disk</h1><p>Full</p></body></html>")
    assert "pip install 'opx-knowledge[ingest]'" in environment.run("ingest", "page.html", code=1)


@pytest.mark.usefixtures("demo")
def test_it_runs_without_being_installed(wheel: Path, environment: Environment) -> None:
    tool = f"tool run --quiet --find-links {wheel.parent} --from {wheel}"
    run = f"{tool} opx --home {environment.work / '.opx'} search kafka disk full"
    done = subprocess.run([str(UV), *run.split()], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, "Kafka" in done.stdout) == (0, True), done.stderr


@pytest.fixture(scope="module")
def served(
    wheel: Path, parts: Path, environment: Environment, demo: str, tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    assert "Done in" in demo
    made = Environment(tmp_path_factory.mktemp("server"))
    made.install("--find-links", str(wheel.parent), f"{wheel}[serve]")
    shutil.copytree(environment.work / ".opx", made.work / ".opx")
    return made


@contextmanager
def serving(environment: Environment) -> Iterator[str]:
    process = subprocess.Popen(
        [str(environment.opx), "serve", "--listen", "127.0.0.1:0"],
        cwd=environment.work,
        env=environment.variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        found = next(filter(None, (re.search(r"http://[\d.:]+", line) for line in process.stdout)))
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{found[0]}/healthz").close()
                break
            except OSError:
                time.sleep(0.1)
        yield found[0]
    finally:
        process.terminate()
        assert process.wait(30) == 0
        process.stdout.close()


def test_serve_answers_over_rest(served: Environment) -> None:
    with serving(served) as address:
        headers = {"authorization": f"Bearer {(served.work / '.opx' / 'token').read_text().strip()}"}
        request = urllib.request.Request(f"{address}/knowledge/default/search?q=kafka+disk+full", headers=headers)
        with urllib.request.urlopen(request) as reply:
            assert "Kafka" in reply.read().decode()
        with urllib.request.urlopen(f"{address}/docs") as page:
            assert b"/knowledge/{kbId}/search" in page.read()


def test_tools_answer_over_standard_input(served: Environment) -> None:
    program = """
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
async def main():
    server = StdioServerParameters(command=sys.argv[1], args=["mcp"])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        found = await session.call_tool("search_runbooks", {"query": "kafka disk full"})
        print(found.content[0].text)
asyncio.run(main())
"""
    done = subprocess.run(
        [str(served.python), "-c", program, str(served.opx)],
        cwd=served.work,
        env=served.variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, "Kafka" in done.stdout) == (0, True), done.stderr
