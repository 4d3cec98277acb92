"""Contents of bundled layers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import aws_cdk as cdk
import pytest

from infra.constructs import code, layer_contents
from infra.constructs.code import LayerSource, Platform
from infra.constructs.layer_contents import LayerTooLargeError, check_size, compile_modules, copy_library

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


def synthesised_layers(outdir: Path, source: LayerSource) -> dict[str, Path]:
    """Folders of the layers of a stack with the library and two sets of packages, by description."""
    app = cdk.App(outdir=str(outdir), analytics_reporting=False)
    stack = cdk.Stack(app, "layers")
    source.library(stack, "ingest")
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
    copy_library(tmp_path, "ingest")
    package = tmp_path / "python" / "opx"
    assert (package / "system.py").is_file()
    assert (package / "text" / "glossaries" / "de.txt").is_file()
    assert (package / "data" / "knowledge.yaml").read_bytes() == layer_contents.KNOWLEDGE_FILE.read_bytes()


INGESTING = ["assurance", "aws", "bulk", "code", "connectors", "documents", "streams", "telemetry", "web"]


def test_a_layer_has_its_distributions_and_what_names_their_plugins(tmp_path: Path) -> None:
    for dependencies, expected in (
        ("api", {"opx", "opx_aws", "opx_telemetry", "opx_web"}),
        ("ingest", {"opx", *(f"opx_{name}" for name in INGESTING)}),
    ):
        copy_library(tmp_path / dependencies, dependencies)
        python = tmp_path / dependencies / "python"
        assert {path.name for path in python.iterdir() if path.suffix != ".dist-info"} == expected
        program = (
            f"import sys; sys.path.append({str(python)!r}); from importlib.metadata import entry_points as found; "
        )
        program += "print(len(found(group='opx.formats')), len(found(group='opx.connectors')))"
        command = [sys.executable, "-I", "-S", "-c", program]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ran.stdout.split() == (["0", "4"] if dependencies == "api" else ["12", "27"])


def test_the_library_has_no_compiled_files(tmp_path: Path) -> None:
    copy_library(tmp_path, "ingest")
    assert not list(tmp_path.rglob("*.pyc"))
    assert not list(tmp_path.rglob("*.egg-info"))


def test_bundled_layers_have_the_library_and_each_its_own_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def note(requirements: Path, folder: Path, *, wheels: str, python: str) -> None:
        (folder / "installed").write_text(f"{requirements.name} {wheels} {python}")

    monkeypatch.setattr(code, "install", note)
    layers = synthesised_layers(tmp_path, LayerSource(bundle=True))
    assert (layers["The opx library"] / "python" / "opx" / "settings.py").is_file()
    for name in ("api.txt", "ingest.txt"):
        installed = (layers[f"Packages of {name}"] / "installed").read_text()
        assert installed == f"{name} aarch64-manylinux_2_28 3.13"


def test_without_bundling_a_layer_holds_its_requirements_and_nothing_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(requirements: Path, folder: Path, **_: str) -> None:
        raise AssertionError(f"{requirements} would have been installed")

    monkeypatch.setattr(code, "install", never)
    layers = synthesised_layers(tmp_path, LayerSource(bundle=False))
    assert [file.name for file in layers["Packages of api.txt"].iterdir()] == ["api.txt"]


def test_packages_are_installed_for_the_functions_platform_from_wheels_with_known_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: commands.append(command))
    layer_contents.install(Path("api.txt"), tmp_path, wheels="x86_64-manylinux_2_28", python="3.12")
    (command,) = commands
    options = " ".join(command[1:])
    assert "--no-deps --require-hashes --only-binary :all:" in options
    assert "--python-platform x86_64-manylinux_2_28 --python-version 3.12" in options
    assert f"--requirement api.txt --target {tmp_path}/python" in options


@pytest.mark.parametrize(
    ("platform", "wheels"),
    [(Platform(), "aarch64-manylinux_2_28"), (Platform("x86_64", "3.12"), "x86_64-manylinux_2_28")],
)
def test_wheels_are_for_the_functions_architecture(platform: Platform, wheels: str) -> None:
    assert platform.wheels == wheels


def test_compiled_modules_are_used_without_a_look_at_their_source(tmp_path: Path) -> None:
    module = tmp_path / "python" / "answer.py"
    module.parent.mkdir()
    module.write_text("VALUE = 1\n")
    assert compile_modules(tmp_path, THIS_PYTHON)
    module.write_text("VALUE = 2\n")
    program = [sys.executable, "-c", "import answer; print(answer.VALUE)"]
    ran = subprocess.run(program, cwd=module.parent, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "1"


def test_compiling_again_gives_the_same_bytes(tmp_path: Path) -> None:
    digests = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        copy_library(folder, "ingest")
        assert compile_modules(folder, THIS_PYTHON)
        digests.append({file.name: file.read_bytes() for file in folder.rglob("*.pyc")})
    assert digests[0] == digests[1]
    assert "system.cpython-" in " ".join(digests[0])


def test_tracebacks_of_compiled_modules_name_the_path_on_lambda(tmp_path: Path) -> None:
    module = tmp_path / "python" / "broken.py"
    module.parent.mkdir()
    module.write_text("def fail():\n    raise ValueError\n")
    compile_modules(tmp_path, THIS_PYTHON)
    (compiled,) = tmp_path.rglob("*.pyc")
    assert b"/opt/python/broken.py" in compiled.read_bytes()


def test_without_a_python_of_that_version_nothing_is_compiled(tmp_path: Path) -> None:
    assert not compile_modules(tmp_path, "3.99")


def test_uncompiled_layers_cause_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "install", lambda *_, **__: None)
    monkeypatch.setattr(code, "check_size", lambda *_, **__: 0)
    monkeypatch.setattr(code, "compile_modules", lambda *_: False)
    app = cdk.App(outdir=str(tmp_path), analytics_reporting=False)
    stack = cdk.Stack(app, "layers")
    LayerSource(bundle=True).library(stack, "ingest")
    app.synth()
    assert "no Python 3.13 was found" in (tmp_path / "layers.metadata.json").read_text()


def test_a_layer_over_the_limit_is_refused_with_its_largest_parts(tmp_path: Path) -> None:
    for name, size in (("small", 10), ("large", 3000)):
        package = tmp_path / "python" / name
        package.mkdir(parents=True)
        (package / "module.py").write_bytes(b"#" * size)
    with pytest.raises(LayerTooLargeError, match=r"layer ingest has 0\.0 MB .* parts: large 0\.0 MB, small"):
        check_size(tmp_path, name="ingest", limit=3000)
    assert check_size(tmp_path, name="ingest", limit=3010) == 3010


@pytest.mark.parametrize("name", ["api", "ingest"])
def test_the_requirements_of_each_layer_are_locked_with_hashes(name: str) -> None:
    text = (code.REQUIREMENTS / f"{name}.txt").read_text()
    pinned = [line for line in text.splitlines() if "==" in line and not line.lstrip().startswith("#")]
    assert pinned
    assert all(line.endswith("\\") for line in pinned)
    assert text.count("--hash=sha256:") >= len(pinned)
