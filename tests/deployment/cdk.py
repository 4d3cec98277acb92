"""The CDK command as people run it, against an emulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.command_line import CDK
from tests.deployment.assemblies import Assembly
from tests.deployment.emulator import ACCOUNT, REGION, Emulator
from tests.deployment.installation import ROOT, EmulatorUnavailableError

COMMAND_SECONDS = 900
HOSTS = Path(__file__).parent / "hosts"
_UNCHANGED = re.compile(r"✅\s+(\S+) \(no changes\)")
_DEPLOYED = re.compile(r"✅\s+(\S+)\s*(?:\(no changes\))?$", re.MULTILINE)


class CdkError(Exception):
    """The command failed; the message ends with its output."""


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a target. `changed`: stacks that were deployed and had changes; `deployed`: also those without."""

    status: int
    changed: set[str]
    deployed: set[str]
    output: str


class Cdk:
    """Runs CDK's command in a source tree. Raises `EmulatorUnavailableError` if there is no such command."""

    def __init__(self, emulator: Emulator) -> None:
        self._environment = (
            _without_aws()
            | emulator.environment
            | {
                "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "CDK_DISABLE_VERSION_CHECK": "1",
                "CDK_VALIDATION": "false",  # as in tests/plugin.py
                "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
            }
        )
        if not shutil.which("npx"):
            raise EmulatorUnavailableError("CDK's command needs Node and npx")
        found = self._done(["npx", "--yes", "--package", CDK, "-c", "command -v cdk"])
        if found.returncode:
            raise EmulatorUnavailableError(f"CDK's command can't be had: {found.stdout[-4000:]}")
        self._program = found.stdout.split()[-1]  # npx takes as long to start it as it takes to start

    def bootstrap(self) -> None:
        # Without an application, which would be synthesised for nothing.
        self._run("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", "")

    def synthesise(self, context: Mapping[str, str], outdir: Path, *, tree: Path = ROOT) -> None:
        chosen = [part for key, value in context.items() for part in ("-c", f"{key}={value}")]
        self._run("synth", "--quiet", "--output", str(outdir), *chosen, tree=tree)

    def make(self, target: str, assembly: Assembly, context: Mapping[str, str], *, doctor: str = "none") -> Made:
        """Run a target of the Makefile without a terminal. The virtual environment is taken as ready: it runs this."""
        chosen = " ".join(f"-c {key}={value}" for key, value in context.items())
        ready = ["-o", ".venv/.ready-dev", "-o", ".venv/.ready"]
        command = [
            "make",
            *ready,
            target,
            "YES=1",
            f"DOCTOR={doctor}",
            f"ASSEMBLY={assembly.folder}",
            f"CONTEXT={chosen}",
        ]
        done = self._done(command)
        deployed = set(_DEPLOYED.findall(done.stdout))
        return Made(done.returncode, deployed - set(_UNCHANGED.findall(done.stdout)), deployed, done.stdout)

    def deploy(self, assembly: Assembly, *stacks: str) -> set[str]:
        """Deploy these stacks alone; the names of those that changed."""
        names = stacks or assembly.stacks
        options = ["--require-approval", "never", "--progress", "events", "--concurrency", "4", "--exclusively"]
        output = self._run("deploy", "--app", str(assembly.folder), *options, *names)
        deployed = set(_DEPLOYED.findall(output))
        assert deployed == set(names), output
        return deployed - set(_UNCHANGED.findall(output))

    def destroy(self, assembly: Assembly, *stacks: str) -> None:
        """Destroy these stacks and those that depend on them, or all."""
        self._run("destroy", *(stacks or ["--all"]), "--force", "--app", str(assembly.folder))

    def _run(self, *arguments: str, tree: Path = ROOT) -> str:
        done = self._done([self._program, *arguments], tree)
        if done.returncode:
            raise CdkError(f"cdk {arguments[0]} failed:\n{done.stdout[-4000:]}")
        return done.stdout

    def _done(self, command: list[str], tree: Path = ROOT) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            check=False,
            cwd=tree,
            # The tree's own library, not the one that is installed for this tree.
            env=self._environment
            | {"PYTHONPATH": os.pathsep.join(map(str, (tree / "layers" / "opx" / "python", tree, HOSTS)))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        )


def _without_aws() -> dict[str, str]:
    """Whatever account the surrounding environment is about, it is not the one to deploy to."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
