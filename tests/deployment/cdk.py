"""The CDK command as people run it, against an emulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.deployment.assemblies import Assembly
from tests.deployment.emulator import ACCOUNT, REGION, Emulator
from tests.deployment.installation import ROOT, EmulatorUnavailableError

COMMAND_SECONDS = 300
_UNCHANGED = re.compile(r"✅\s+(\S+) \(no changes\)")
_DEPLOYED = re.compile(r"✅\s+(\S+)\s*(?:\(no changes\))?$", re.MULTILINE)


class CdkError(Exception):
    """The command failed; the message ends with its output."""


def cdk_package() -> str:
    """The version of CDK's command that the Makefile deploys with."""
    found = re.search(r"^CDK := (\S+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert found
    return found[1]


class Cdk:
    """Runs CDK's command in a source tree. Raises `EmulatorUnavailableError` if there is no such command."""

    def __init__(self, emulator: Emulator) -> None:
        self._environment = (
            _without_aws()
            | emulator.environment
            | {
                "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
                "CDK_DISABLE_VERSION_CHECK": "1",
                "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
            }
        )
        if not shutil.which("npx"):
            raise EmulatorUnavailableError("CDK's command needs Node and npx")
        try:
            self._run("--version")
        except CdkError as exc:
            raise EmulatorUnavailableError(f"CDK's command can't be had: {exc}") from exc

    def bootstrap(self) -> None:
        # Without an application, which would be synthesised for nothing.
        self._run("bootstrap", f"aws://{ACCOUNT}/{REGION}", "--app", "")

    def synthesise(self, context: Mapping[str, str], outdir: Path, *, tree: Path = ROOT) -> None:
        chosen = [part for key, value in context.items() for part in ("-c", f"{key}={value}")]
        self._run("synth", "--quiet", "--output", str(outdir), *chosen, tree=tree)

    def deploy(self, assembly: Assembly, *stacks: str) -> set[str]:
        """Deploy these stacks, or all; the names of those that changed."""
        names = stacks or assembly.stacks
        options = ["--require-approval", "never", "--progress", "events", "--concurrency", "4", "--exclusively"]
        output = self._run("deploy", "--app", str(assembly.folder), *options, *names)
        deployed = set(_DEPLOYED.findall(output))
        assert deployed == set(names), output
        return deployed - set(_UNCHANGED.findall(output))

    def _run(self, *arguments: str, tree: Path = ROOT) -> str:
        command = ["npx", "--yes", cdk_package(), *arguments]
        done = subprocess.run(
            command,
            check=False,
            cwd=tree,
            # The tree's own library, not the one that is installed for this tree.
            env=self._environment | {"PYTHONPATH": str(tree / "layers" / "opx" / "python")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
        )
        if done.returncode:
            raise CdkError(f"cdk {arguments[0]} failed:\n{done.stdout[-4000:]}")
        return done.stdout


def _without_aws() -> dict[str, str]:
    """Whatever account the surrounding environment is about, it is not the one to deploy to."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))}
