"""Layers as they are deployed: filled from the package registry, measured, and run with nothing beside them."""

from __future__ import annotations

import platform
import site
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from infra.constructs.code import REQUIREMENTS, Platform
from infra.constructs.layer_contents import ROOT, check_size, compile_modules, copy_library, install

pytestmark = pytest.mark.packaging

THIS_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
THIS_MACHINE = {"x86_64": "x86_64-manylinux_2_28", "aarch64": "aarch64-manylinux_2_28"}.get(platform.machine(), "")

SDK = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "six.py")
"""Packages that Lambda's Python runtimes include."""

LEAN = {"api": 32 * 1024 * 1024, "search": 48 * 1024 * 1024}
"""The search path's packages, compiled; loading and restoring them takes longer the more there is."""

FUNCTIONS = {
    "retrieve_knowledge": (
        "search",
        (
            "opx.adapters.embedded.words",
            *("opx_aws.opensearch", "opx_aws.bedrock_embedder"),
            *("opx_assurance.past.as_of", "opx.lifecycle.versions.differences", "opx.lifecycle.retention.reviews"),
            *("opx.learning.query", "opx.learning.context", "opx.learning.outcome_recording"),
        ),
    ),
    "ingest_documents": (
        "ingest",
        (
            *("opx.ingestion.pipeline", "opx.ingestion.reading", "opx.text.tokenizer", "opx.ingestion.long_blocks"),
            *("pypdfium2", "mammoth", "pptx", "openpyxl", "oxmsg", "PIL.Image", "docutils.core", "tree_sitter_python"),
        ),
    ),
    "bulk_stage": (
        "ingest",
        (
            *("opx_bulk.stages", "opx_bulk.calls", "opx_aws.batch_embedder"),
            *("opx.ingestion.pipeline", "opx.ingestion.reading", "opx.text.tokenizer", "opx_aws.opensearch"),
        ),
    ),
    "pull_sources": ("ingest", ("opx.connectors.control", "feedparser", "protego", "defusedxml", "dulwich.client")),
    "manage_knowledge": (
        "manage",
        (
            *("opx_aws.opensearch", "opx_aws.object_store", "opx.text.tokenizer", "python_multipart"),
            *("opx.ingestion.pipeline", "opx.connectors.control", "feedparser", "protego", "dulwich.client"),
        ),
    ),
    "receive_webhook": (
        "ingest",
        ("opx_aws.secrets", "opx.ingestion.manager", "opx.formats.data.json_mapping", "cryptography.x509"),
    ),
    "consume_stream": (
        "ingest",
        ("opx_streams.streams.taking", "opx.ingestion.manager", "opx.formats.data.json_mapping"),
    ),
    "report_coverage": ("ingest", ("opx_aws.ports", "opx_aws.table")),
    "record_announcements": ("api", ("opx.ingestion.corpus.announcements", "opx_aws.object_store")),
    "identify_callers": ("api", ("opx_aws.secrets", "opx_aws.clients")),
    "create_index": ("api", ("opx_aws.index_resource",)),
    "query_operations": (
        "api",
        ("opx_aws.ports", "opx_aws.telemetry", "opx_telemetry.baselines.store"),
    ),
    "roll_up_baselines": (
        "api",
        ("opx_aws.telemetry", "opx_aws.table", "opx_telemetry.baselines.definitions"),
    ),
    "learn_from_work": (
        "api",
        (
            *("opx_aws.opensearch", "opx.learning.capture", "opx.learning.query", "opx.learning.context"),
            "opx.learning.outcome_recording",
        ),
    ),
    "learn_from_events": (
        "ingest",
        ("opx.learning.capture", "opx.learning.outcome_recording", "opx.edges.learning_events"),
    ),
    "process_checkpoint": ("ingest", ("opx.learning.checkpoints", "opx.learning.matching", "opx.ingestion.manager")),
    "prune_knowledge": (
        "ingest",
        ("opx.lifecycle.retention.pruning", "opx.lifecycle.retention.removal", "opx_aws.opensearch"),
    ),
    "seal_knowledge": (
        "ingest",
        (
            "opx_assurance.seal.daily",
            "opx_assurance.seal.signing",
            "opx_aws.table",
            "opx_aws.secrets",
        ),
    ),
    "rebuild_index": (
        "ingest",
        (
            *("opx.lifecycle.reindex.reindexing", "opx.lifecycle.warm_words", "opx.adapters.embedded.words"),
            *("opx_aws.opensearch", "opx_aws.bedrock_embedder"),
        ),
    ),
    "sync_knowledge_base": ("api", ("opx_aws.ports", "opx_aws.knowledge_base_objects")),
}
"""By use case: its dependency layer, and the modules that its first event loads in addition to the handler."""

_PROGRAM = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
if "opx.text.tokenizer" in sys.modules:
    assert sys.modules["opx.text.tokenizer"].encode("hello world") == [15339, 1917]
"""


@pytest.fixture(scope="session", params=["api", "search", "manage", "ingest"])
def arm64_layer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The layer's name and its folder, filled and compiled as `make deploy` does it."""
    chosen = Platform()
    folder = tmp_path_factory.mktemp(f"arm64-{request.param}")
    install(REQUIREMENTS / f"{request.param}.txt", folder, wheels=chosen.wheels, python=chosen.python)
    if not compile_modules(folder, chosen.python):
        print(f"no Python {chosen.python} here: the layer is measured uncompiled")
    return request.param, folder


def test_a_layer_is_within_lambdas_limit(arm64_layer: tuple[str, Path]) -> None:
    name, folder = arm64_layer
    size = check_size(folder, name=name)
    print(f"layer {name}: {size / 1e6:.1f} MB unzipped")
    if name in LEAN:
        assert size < LEAN[name]


def test_a_layers_native_modules_are_for_arm64(arm64_layer: tuple[str, Path]) -> None:
    _, folder = arm64_layer
    native = list(folder.rglob("*.so"))
    assert native
    for module in native:
        machine = int.from_bytes(module.read_bytes()[18:20], "little")  # e_machine of the ELF header
        assert machine == 183, module  # EM_AARCH64


@pytest.fixture(scope="session")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packages of Lambda's runtime besides the standard library."""
    folder = tmp_path_factory.mktemp("runtime")
    packages = Path(site.getsitepackages()[0])
    for name in SDK:
        (folder / name).symlink_to(packages / name)
    return folder


def test_every_function_is_started_here() -> None:
    assert set(FUNCTIONS) == {handler.parent.name for handler in (ROOT / "lambdas").glob("*/handler.py")}


@pytest.fixture(scope="session")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Fills a layer for this machine once, by name: `ingest` are dependencies, `opx ingest` is the library beside them."""

    @cache
    def fill(name: str) -> Path:
        folder = tmp_path_factory.mktemp(name)
        if name.startswith("opx "):
            copy_library(folder, name.removeprefix("opx "))
        else:
            install(REQUIREMENTS / f"{name}.txt", folder, wheels=THIS_MACHINE, python=THIS_PYTHON)
        return folder / "python"

    return fill


@pytest.mark.skipif(not THIS_MACHINE, reason=f"no wheels are chosen for {platform.machine()}")
@pytest.mark.parametrize("use_case", sorted(FUNCTIONS))
def test_a_function_starts_with_its_layers_and_nothing_else(
    use_case: str, layers: Callable[[str], Path], runtime: Path
) -> None:
    name, modules = FUNCTIONS[use_case]
    parts = (ROOT / "lambdas" / use_case, layers(name), layers(f"opx {name}"), runtime)
    paths = f"import sys; sys.path[:0] = {[str(part) for part in parts]!r}\n"
    command = [sys.executable, "-I", "-S", "-c", paths + _PROGRAM, "handler", *modules]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env={"OPX_BACKEND": "aws"})
    assert ran.returncode == 0, ran.stderr
