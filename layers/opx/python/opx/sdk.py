"""Public names for plugins, version 1: connectors, webhook formats, file formats, index adapters, operations, rows.

Names are imported when they are first used (`sdk.pyi` has their types), so that a plugin loads no more than it needs. The
modules behind them are not public: they may move. A distribution states the version that it is written for as the name of
an entry point of the group `opx.sdk`. docs/plugins.md has an example of each kind of plugin.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "connectors.connector": "Connector Options SourceTools page_of",
    "connectors.deliveries": "Delivery DocumentUpdate PayloadError",
    "connectors.registry": "Preset",
    "connectors.webhook_formats": "HubSignature WebhookFormat",
    "domain.ids": "day_number",
    "domain.policy": "Action",
    "domain.record": "Record about",
    "domain.requests": "Request",
    "domain.results": "IndexedChunk",
    "domain.sources": "Page PullRequest RateLimit SourceDocument",
    "errors": "IncompatibleIndexError IndexUnavailableError InvalidInputError SourceRefusedError SourceShapeError "
    "SourceUnavailableError UnparsableDocumentError",
    "formats.sandbox.output": "Output ReadingJob",
    "formats.source": "Format ParsedSource Source text_lines",
    "ingestion.indexing.book": "Edition",
    "ingestion.indexing.editions": "IndexService",
    "operations.context": "Context",
    "operations.registry": "KNOWLEDGE Feature Module Tool operation",
    "ports.rows": "RowKind Rows by_client by_scope",
    "ports.search": "DocumentChange Embedder HeldDocument Leg SearchFilter SearchIndex SearchRequest SearchResponse",
    "ports.tables": "TableSpec",
    "text.fields": "LEXICAL_FIELDS VALUE_WEIGHT analysed_fields words",
}
_MODULE_OF = {name: f"opx.{module}" for module, names in _NAMES.items() for name in names.split()}

__all__ = list(_MODULE_OF)


def __getattr__(name: str) -> Any:
    """Imports a name on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"opx.sdk has no {name!r}; it has: {', '.join(__all__)}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
