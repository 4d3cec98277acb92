"""The code of functions and layers. Dependencies come from locked requirements through uv, without Docker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsii
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.constructs.layer_contents import LIBRARY, ROOT, check_size, compile_modules, copy_library, install

REQUIREMENTS = ROOT / "layers" / "dependencies"

_RUNTIMES = {
    "3.12": lambda_.Runtime.PYTHON_3_12,
    "3.13": lambda_.Runtime.PYTHON_3_13,
    "3.14": lambda_.Runtime.PYTHON_3_14,
}
_ARCHITECTURES = {"arm64": lambda_.Architecture.ARM_64, "x86_64": lambda_.Architecture.X86_64}
_WHEELS = {"arm64": "aarch64-manylinux_2_28", "x86_64": "x86_64-manylinux_2_28"}
"""These runtimes are on Amazon Linux 2023, whose glibc is 2.34."""

_COMPILED = ["**/__pycache__", "**/*.pyc"]
_UNBUNDLED = "the layer lists its packages but has none: for a deployment add -c bundle=true, as `make deploy` does"
_UNCOMPILED = (
    "no Python {0} was found here, so that the layers hold sources only and every cold start compiles them: install it "
    "(`uv python install {0}`) and deploy again"
)


@dataclass(frozen=True, slots=True)
class Platform:
    """The platform of functions: an architecture in Lambda's naming, and a version of Python."""

    architecture: str = "arm64"
    python: str = "3.13"

    @property
    def runtime(self) -> lambda_.Runtime:
        return _RUNTIMES[self.python]

    @property
    def instructions(self) -> lambda_.Architecture:
        return _ARCHITECTURES[self.architecture]

    @property
    def wheels(self) -> str:
        """The platform as uv names it."""
        return _WHEELS[self.architecture]


@dataclass(frozen=True, slots=True)
class LayerSource:
    """The source of functions' code and layers. Without `bundle`, dependencies are left out, so that no network is needed."""

    bundle: bool
    platform: Platform = Platform()
    lambdas: Path = ROOT / "lambdas"

    def function_code(self, use_case: str) -> lambda_.Code:
        """The folder of one function."""
        return lambda_.Code.from_asset(str(self.lambdas / use_case), exclude=_COMPILED)

    def library(self, scope: Construct, dependencies: str) -> lambda_.LayerVersion:
        """The library, with its copy of `knowledge.yaml` and the distributions that go with these dependencies."""
        compiled: list[bool] = []

        def fill(folder: Path) -> None:
            copy_library(folder, dependencies)
            compiled.append(not self.bundle or compile_modules(folder, self.platform.python))

        layer = self._layer(
            scope, "OpxLayer", self._bundled(LIBRARY, f"opx {dependencies}", fill=fill), "The opx library"
        )
        if not all(compiled):
            cdk.Validations.of(layer).add_warning("opx:uncompiled", _UNCOMPILED.format(self.platform.python))
        return layer

    def dependencies(self, scope: Construct, name: str) -> lambda_.LayerVersion:
        """The packages of `layers/dependencies/<name>.txt`, at exactly the versions and hashes given there."""
        requirements = REQUIREMENTS / f"{name}.txt"
        if self.bundle:
            code = self._bundled(REQUIREMENTS, name, fill=lambda folder: self._fill(folder, requirements))
        else:
            code = lambda_.Code.from_asset(str(REQUIREMENTS), exclude=["*", f"!{requirements.name}"])
        layer = self._layer(scope, "DependenciesLayer", code, f"Packages of {requirements.name}")
        if not self.bundle:
            cdk.Validations.of(layer).add_warning("opx:unbundled", _UNBUNDLED)
        return layer

    def _fill(self, folder: Path, requirements: Path) -> None:
        install(requirements, folder, wheels=self.platform.wheels, python=self.platform.python)
        compile_modules(folder, self.platform.python)
        check_size(folder, name=requirements.stem)

    def _bundled(self, source: Path, name: str, *, fill: Callable[[Path], None]) -> lambda_.Code:
        """The hash is that of the result, so that equal code isn't deployed again.

        CDK bundles once for equal sources and options: `name`, as the command that is never run, distinguishes two
        bundles of one folder.
        """
        image = self.platform.runtime.bundling_image
        bundling = cdk.BundlingOptions(image=image, command=[name], local=_LocalBundling(fill))
        return lambda_.Code.from_asset(str(source), bundling=bundling, asset_hash_type=cdk.AssetHashType.OUTPUT)

    def _layer(self, scope: Construct, construct_id: str, code: lambda_.Code, description: str) -> lambda_.LayerVersion:
        return lambda_.LayerVersion(
            scope,
            construct_id,
            code=code,
            description=description,
            compatible_runtimes=[self.platform.runtime],
            compatible_architectures=[self.platform.instructions],
        )


@jsii.implements(cdk.ILocalBundling)
class _LocalBundling:
    """Bundles in this process, always: the Docker image that CDK asks for besides is never started."""

    def __init__(self, fill: Callable[[Path], None]) -> None:
        self._fill = fill

    def try_bundle(self, output_dir: str, *_: Any, **_options: Any) -> bool:
        self._fill(Path(output_dir))
        return True
