"""Limits on imports beyond the order of packages that `make lint` checks: libraries, vendors, the environment."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = sorted((ROOT / "layers").glob("opx*/python"))
FUNCTIONS = ROOT / "lambdas"
VENDORS = ("boto3", "botocore", "opensearchpy", "s3transfer", "aws_lambda_powertools")
MAY_READ_ENVIRONMENT = ("opx.settings", "opx.edges.cli.main", "opx.system")
DYNAMIC = ("import_module", "__import__")


@dataclass(frozen=True)
class Import:
    """`module` imports `target`; not at run time if `typing_only`."""

    module: str
    target: str
    typing_only: bool

    def of(self, *packages: str) -> bool:
        return _within(self.target, *packages)

    def __str__(self) -> str:
        return f"{self.module} imports {self.target}"


def _within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)


def _module(file: Path, root: Path) -> str:
    return ".".join(file.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _files() -> dict[str, Path]:
    files = {_module(file, folder): file for folder in LIBRARIES for file in sorted(folder.rglob("*.py"))}
    return files | {_module(file, ROOT): file for file in sorted(FUNCTIONS.rglob("*.py"))}


def _imports(module: str, tree: ast.Module) -> Iterator[Import]:
    typing_nodes = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        for target in _targets(node):
            yield Import(module, target, id(node) in typing_nodes)


def _targets(node: ast.AST) -> list[str]:
    """Modules that a node imports; in `from package import name` the name may be a module, too, so that both are returned."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Call) and _called(node.func) in DYNAMIC and node.args:
        return [_literal_start(node.args[0])]
    return []


def _called(function: ast.expr) -> str:
    """The last part of its name: `importlib.import_module` -> `import_module`."""
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _literal_start(argument: ast.expr) -> str:
    """The fixed beginning of a module's name that is put together: `f"opx.edges.cli.{name}"` -> `opx.edges.cli`."""
    if isinstance(argument, ast.JoinedStr):
        argument = argument.values[0]
    return argument.value.rstrip(".") if isinstance(argument, ast.Constant) and isinstance(argument.value, str) else "?"


FILES = _files()


@dataclass(frozen=True)
class Module:
    """Facts about a file. Its syntax tree is not kept: all trees are a million objects."""

    imports: tuple[Import, ...]
    environment_reads: tuple[int, ...]


@cache
def modules() -> dict[str, Module]:
    """All files by module."""
    return {module: _read(module, file) for module, file in FILES.items()}


def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


@cache
def _nodes(file: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(_tree(file)))


def _read(module: str, file: Path) -> Module:
    tree = _tree(file)
    reads = [node for node in ast.walk(tree) if _reads_environment(node)]
    if module.startswith("lambdas."):
        reads = [node for node in reads if _at_import(tree, node)]
    return Module(tuple(_imports(module, tree)), tuple(node.lineno for node in reads))


@cache
def all_imports() -> list[Import]:
    return [found for module in modules().values() for found in module.imports]


def broken(rule_holds: list[Import]) -> list[str]:
    return sorted({str(found) for found in rule_holds})


def test_the_imports_are_found() -> None:
    assert {"opx.domain.ids", "opx.system", "opx_aws.table", "opx.edges.cli.main"} <= set(FILES)
    assert any(module.startswith("lambdas.") for module in FILES)
    assert len(all_imports()) > 500


def test_the_domain_imports_the_standard_library_records_itself_and_errors() -> None:
    allowed = ("opx.domain", "opx.errors", "msgspec")
    assert not broken(
        [
            found
            for found in all_imports()
            if _within(found.module, "opx.domain", "opx.errors")
            if not found.of(*allowed) and found.target.split(".")[0] not in sys.stdlib_module_names
        ]
    )


def test_ports_and_tables_know_only_the_domain() -> None:
    allowed = ("opx.domain", "opx.errors", "opx.plugins", "opx.ports", "opx.settings", "msgspec")
    inner = [found for found in all_imports() if _within(found.module, "opx.ports", "opx.settings")]
    assert not broken(
        [
            found
            for found in inner
            if not found.of(*allowed) and found.target.split(".")[0] not in sys.stdlib_module_names
        ]
    )


def test_aws_libraries_are_imported_only_by_the_aws_adapters() -> None:
    allowed = ("opx_aws", "opx.runtime", "lambdas")
    vendors = [found for found in all_imports() if found.of(*VENDORS)]
    assert not broken([found for found in vendors if not _within(found.module, *allowed)])
    clients = [found for found in vendors if not found.of("aws_lambda_powertools")]
    assert not broken([found for found in clients if not _within(found.module, "opx_aws")])


def test_clients_of_aws_are_made_in_one_module_which_has_their_retries_and_time_limits() -> None:
    making = {module for module, file in FILES.items() if any(map(_makes_a_client, _nodes(file)))}
    assert making == {"opx_aws.clients"}


def _makes_a_client(node: ast.AST) -> bool:
    """True for `boto3.client(...)` and `session.resource(...)`, whatever the session's name ends with."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    made_by = ast.unparse(node.func.value).casefold().removesuffix("()")
    return node.func.attr in ("client", "create_client", "resource") and made_by.endswith(("boto3", "session"))


def test_langchain_is_imported_by_its_splitter_alone() -> None:
    """It is optional, and importing it takes up to a second."""
    langchain = [found for found in all_imports() if found.of("langchain_core", "langchain_text_splitters")]
    assert {found.module for found in langchain} == {"opx.chunking"}
    assert not [found for found in all_imports() if found.of("opx.chunking")]


def test_functions_import_adapters_only_where_they_start() -> None:
    """A function may build what the library has no use for, when it starts: not at import."""
    assert not broken(
        [
            Import(module, target, typing_only=False)
            for module, file in FILES.items()
            if module.startswith("lambdas.")
            for node in _tree(file).body
            for target in _targets(node)
            if _within(target, "opx.adapters", "opx_aws")
        ]
    )


def test_the_two_sets_of_adapters_do_not_know_each_other() -> None:
    for one, other in (("opx_aws", "opx.adapters.embedded"), ("opx.adapters.embedded", "opx_aws")):
        assert not broken([found for found in all_imports() if _within(found.module, one) and found.of(other)])


REVIEWED_BY = {"review_by", "reviewBy"}
USES_REVIEWS = (
    "opx.ingestion.corpus.calendar",
    "opx.ingestion.reviews",
    "opx.lifecycle.retention.reviews",
    "opx.edges.cli",
)
"""Purpose of each field: a new field has users of its own, or none."""

MOST_MODULES_OF_A_FIELD = 6


def test_a_documents_field_is_named_in_few_modules() -> None:
    """Declared, read of what authors give, kept in the index and shown in answers; the rest follows from these."""

    def named(node: ast.AST) -> object:
        if isinstance(node, ast.Attribute):
            return node.attr
        if isinstance(node, ast.keyword):
            return node.arg
        return node.value if isinstance(node, ast.Constant) else getattr(node, "id", None)

    found = {
        module
        for module, file in FILES.items()
        if not _within(module, *USES_REVIEWS)
        if any(isinstance(name := named(node), str) and name in REVIEWED_BY for node in _nodes(file))
    }
    assert "opx.domain.documents" in found
    assert len(found) <= MOST_MODULES_OF_A_FIELD, found


MOST_ANCESTORS = 3
MOST_OVERRIDES = 3


def test_classes_are_composed_rather_than_inherited() -> None:
    """Classes of ours alone count: an error or a record has those of Python and msgspec, too."""
    bases = {
        node.name: [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
        for file in FILES.values()
        for node in _nodes(file)
        if isinstance(node, ast.ClassDef)
    }

    def ancestors(name: str) -> set[str]:
        own = [base for base in bases.get(name, ()) if base in bases and base != name]
        return set(own).union(*map(ancestors, own))

    assert {name: found for name in bases if len(found := ancestors(name)) > MOST_ANCESTORS} == {}


def test_a_subclass_keeps_the_types_of_its_base() -> None:
    ignored = [
        f"{module}:{number}"
        for module, file in FILES.items()
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"type: ignore\[[^]]*\boverride\b", line)
    ]
    assert len(ignored) <= MOST_OVERRIDES, ignored


def test_no_two_public_classes_share_a_name() -> None:
    """But for those of `opx.compat`, which repeats names of designs."""
    modules_of: dict[str, list[str]] = {}
    for module, file in FILES.items():
        if _within(module, "opx.compat"):
            continue
        for node in _tree(file).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules_of.setdefault(node.name, []).append(module)
    assert {name: found for name, found in modules_of.items() if len(found) > 1} == {}


UNPREPARED = {"type_info", "multi_type_info", "schema", "schema_components", "convert", "decode", "Decoder"}
"""Functions of msgspec that describe a type on first use, which only one thread may do."""


def test_types_are_described_by_one_thread() -> None:
    found = {
        f"{module}:{node.lineno}"
        for module, file in FILES.items()
        if module not in ("opx.domain.record", "opx.domain.requests")
        for node in _nodes(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in UNPREPARED
        if ast.unparse(node.func).startswith(("msgspec.", "inspect."))
        if (kinds := [*node.args[node.func.attr != "Decoder" :], *(one.value for one in node.keywords)])
        if not any(isinstance(kind, ast.Call) and _called(kind.func) == "prepared" for kind in kinds)
    }
    assert not found, (
        "hand the type over as prepared(type), or use type_info and schema_components of opx.domain.record"
    )


def test_nothing_imports_the_functions() -> None:
    assert not broken(
        [found for found in all_imports() if found.of("lambdas") and not _within(found.module, "lambdas")]
    )


@pytest.mark.parametrize("folder", sorted(ROOT.glob("layers/*/tests")), ids=lambda folder: folder.parent.name)
def test_tests_of_a_distribution_know_no_other_one(folder: Path) -> None:
    package = folder.parent.name.replace("-", "_")
    own = {found.target.partition(".")[0] for found in all_imports() if _within(found.module, package)}
    known = (*own, "opx_testing", "tests.support", "tests.doubles")
    ours = {module.partition(".")[0] for module in FILES} | {"infra", "tests"}
    imports = [found for file in folder.rglob("*.py") for found in _imports(file.stem, _tree(file))]
    assert imports
    assert not broken([found for found in imports if found.of(*ours) and not found.of(*known)])


@pytest.mark.parametrize("module", FILES)
def test_the_environment_is_read_only_where_a_process_starts(module: str) -> None:
    if module in MAY_READ_ENVIRONMENT:
        return
    reads = modules()[module].environment_reads
    assert not reads, f"{module} reads the environment in line {reads[0]}"


def _reads_environment(node: ast.AST) -> TypeGuard[ast.Attribute | ast.ImportFrom]:
    if isinstance(node, ast.Attribute):
        return node.attr in ("environ", "environb", "getenv") and _is_os(node.value)
    if isinstance(node, ast.ImportFrom) and node.module == "os":
        return not {"environ", "getenv"}.isdisjoint(alias.name for alias in node.names)
    return False


def _is_os(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "os"


def _at_import(tree: ast.Module, wanted: ast.AST) -> bool:
    functions = [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return not any(inner is wanted for function in functions for inner in ast.walk(function))
