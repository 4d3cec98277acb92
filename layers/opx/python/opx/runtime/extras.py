"""Names the extra of the package that a missing module belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opx.errors import MissingExtraError

EXTRAS = {
    "aws": "boto3 botocore opensearchpy opx_aws",
    "ingest": (
        "PIL bs4 cryptography defusedxml docutils dulwich feedparser jsonpath_ng mammoth markdownify openpyxl oxmsg "
        "pptx protego pypdfium2 redis tree_sitter tree_sitter_bash tree_sitter_c tree_sitter_c_sharp tree_sitter_cpp "
        "tree_sitter_go tree_sitter_hcl tree_sitter_java tree_sitter_javascript tree_sitter_kotlin tree_sitter_php "
        "tree_sitter_powershell tree_sitter_python tree_sitter_ruby tree_sitter_rust tree_sitter_typescript watchfiles"
    ),
    "langchain": "langchain_core langchain_text_splitters",
    "mcp": "anyio mcp mcp_types",
    "serve": "h11 prometheus_client python_multipart starlette uvicorn",
}
"""Modules that each extra of `pyproject.toml` installs and that are imported here."""

_EXTRA_OF = {module: extra for extra, modules in EXTRAS.items() for module in modules.split()}


def missing_extra(error: Exception) -> MissingExtraError | None:
    """The error that names the extra of a module that wasn't found; None for other errors and modules."""
    if isinstance(error, MissingExtraError):
        return error
    module = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
    extra = _EXTRA_OF.get(module)
    return MissingExtraError(extra, module) if extra else None


@contextmanager
def naming_extras() -> Iterator[None]:
    """Raises `MissingExtraError` instead of the `ModuleNotFoundError` for a module of an extra."""
    try:
        yield
    except ModuleNotFoundError as exc:
        named = missing_extra(exc)
        if named is None:
            raise
        raise named from exc
