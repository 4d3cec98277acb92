"""What layers are filled with when they are bundled."""

from __future__ import annotations

import subprocess
from pathlib import Path

import aws_cdk as cdk
import pytest

from infra.constructs import code
from infra.constructs.code import LayerSource, copy_library


def synthesised_layers(outdir: Path, source: LayerSource) -> dict[str, Path]:
    """Folders of the layers of a stack with the library and two sets of packages, by description."""
    app = cdk.App(outdir=str(outdir), analytics_reporting=False)
    stack = cdk.Stack(app, "layers")
    source.library(stack)
    for name in ("api", "ingest"):
        source.dependencies(cdk.Stack(app, name), name)
    assembly = app.synth()
    found = {}
    for made in assembly.stacks:
        for resource in made.template["Resources"].values():
            if resource["Type"] == "AWS::Lambda::LayerVersion":
                key = resource["Properties"]["Content"]["S3Key"].removesuffix(".zip")
                found[resource["Properties"]["Description"]] = outdir / f"asset.{key}"
    return found


def test_the_library_has_its_modules_and_the_knowledge_file(tmp_path: Path) -> None:
    copy_library(tmp_path)
    package = tmp_path / "python" / "opx"
    assert (package / "bootstrap.py").is_file()
    assert (package / "data" / "knowledge.yaml").read_bytes() == code.KNOWLEDGE_FILE.read_bytes()


def test_the_library_has_no_compiled_files(tmp_path: Path) -> None:
    copy_library(tmp_path)
    assert not list(tmp_path.rglob("*.pyc"))
    assert not list(tmp_path.rglob("*.egg-info"))


def test_bundled_layers_have_the_library_and_each_its_own_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(requirements: Path, folder: Path) -> None:
        (folder / "installed").write_text(requirements.name)

    monkeypatch.setattr(code, "install", note)
    layers = synthesised_layers(tmp_path, LayerSource(bundle=True))
    assert (layers["The opx library"] / "python" / "opx" / "settings.py").is_file()
    for name in ("api.txt", "ingest.txt"):
        assert (layers[f"Packages of {name}"] / "installed").read_text() == name


def test_without_bundling_a_layer_holds_its_requirements_and_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(requirements: Path, folder: Path) -> None:
        raise AssertionError(f"{requirements} would have been installed")

    monkeypatch.setattr(code, "install", never)
    layers = synthesised_layers(tmp_path, LayerSource(bundle=False))
    assert [file.name for file in layers["Packages of api.txt"].iterdir()] == ["api.txt"]


def test_packages_are_installed_for_the_functions_platform_from_wheels_with_known_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    code.install(Path("api.txt"), tmp_path)
    (command,) = commands
    options = " ".join(command[1:])
    assert "--no-deps --require-hashes --only-binary :all:" in options
    assert "--python-platform aarch64-manylinux_2_28 --python-version 3.13" in options
    assert f"--requirement api.txt --target {tmp_path}/python" in options


@pytest.mark.parametrize("name", ["api", "ingest"])
def test_the_requirements_of_each_layer_are_locked_with_hashes(name: str) -> None:
    text = (code.REQUIREMENTS / f"{name}.txt").read_text()
    pinned = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    assert pinned
    assert all(line.endswith("\\") for line in pinned)
    assert text.count("--hash=sha256:") >= len(pinned)
