"""The code of functions and layers. Dependencies come from locked requirements through uv, without Docker."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "layers" / "opx"
REQUIREMENTS = ROOT / "layers" / "dependencies"
KNOWLEDGE_FILE = ROOT / "corpus" / "knowledge.yaml"

RUNTIME = lambda_.Runtime.PYTHON_3_13
ARCHITECTURE = lambda_.Architecture.ARM_64
_PYTHON_VERSION = "3.13"
_PLATFORM = "aarch64-manylinux_2_28"
"""Python 3.13 runs on Amazon Linux 2023, whose glibc is 2.34."""

_COMPILED = ["**/__pycache__", "**/*.pyc"]
_UNBUNDLED = "the layer lists its packages but has none: for a deployment add -c bundle=true, as `make deploy` does"


@dataclass(frozen=True, slots=True)
class LayerSource:
    """Where code comes from. Without `bundle`, dependencies are left out, so that no network is needed."""

    bundle: bool
    lambdas: Path = ROOT / "lambdas"

    def function_code(self, use_case: str) -> lambda_.Code:
        """The folder of one function."""
        return lambda_.Code.from_asset(str(self.lambdas / use_case), exclude=_COMPILED)

    def library(self, scope: Construct) -> lambda_.LayerVersion:
        """The library, with its copy of `knowledge.yaml`."""
        code = _bundled(LIBRARY, "opx", fill=copy_library)
        return _layer(scope, "OpxLayer", code, "The opx library")

    def dependencies(self, scope: Construct, name: str) -> lambda_.LayerVersion:
        """The packages of `layers/dependencies/<name>.txt`, at exactly the versions and hashes given there."""
        requirements = REQUIREMENTS / f"{name}.txt"
        if self.bundle:
            code = _bundled(REQUIREMENTS, name, fill=lambda folder: install(requirements, folder))
        else:
            code = lambda_.Code.from_asset(str(REQUIREMENTS), exclude=["*", f"!{requirements.name}"])
        layer = _layer(scope, "DependenciesLayer", code, f"Packages of {requirements.name}")
        if not self.bundle:
            cdk.Validations.of(layer).add_warning("opx:unbundled", _UNBUNDLED)
        return layer


def copy_library(folder: Path) -> None:
    """Fill a layer with the library's source."""
    target = folder / "python"
    shutil.copytree(LIBRARY / "python", target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    data = target / "opx" / "data"
    data.mkdir(exist_ok=True)
    shutil.copyfile(KNOWLEDGE_FILE, data / KNOWLEDGE_FILE.name)


def install(requirements: Path, folder: Path) -> None:
    """Fill a layer with packages built for the functions' platform. Source distributions are refused."""
    from uv import find_uv_bin

    command = [find_uv_bin(), "pip", "install", "--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command += ["--python-platform", _PLATFORM, "--python-version", _PYTHON_VERSION]
    command += ["--requirement", str(requirements), "--target", str(folder / "python")]
    subprocess.run(command, check=True)  # noqa: S603 - the command is ours, and so are the files it names


@jsii.implements(cdk.ILocalBundling)
class _LocalBundling:
    """Bundles in this process, always: the Docker image that CDK asks for besides is never started."""

    def __init__(self, fill: Callable[[Path], None]) -> None:
        self._fill = fill

    def try_bundle(self, output_dir: str, *_: Any, **_options: Any) -> bool:
        self._fill(Path(output_dir))
        return True


def _bundled(source: Path, name: str, *, fill: Callable[[Path], None]) -> lambda_.Code:
    """The hash is that of the result, so that equal code isn't deployed again.

    CDK bundles once for equal sources and options: `name`, as the command that is never run, tells two bundles of one
    folder apart.
    """
    bundling = cdk.BundlingOptions(image=RUNTIME.bundling_image, command=[name], local=_LocalBundling(fill))
    return lambda_.Code.from_asset(str(source), bundling=bundling, asset_hash_type=cdk.AssetHashType.OUTPUT)


def _layer(scope: Construct, construct_id: str, code: lambda_.Code, description: str) -> lambda_.LayerVersion:
    return lambda_.LayerVersion(
        scope,
        construct_id,
        code=code,
        description=description,
        compatible_runtimes=[RUNTIME],
        compatible_architectures=[ARCHITECTURE],
    )
