"""OPX Knowledge: institutional memory for operations agents.

`Knowledge.open` is the way in. The names below are imported when they are first used; `__init__.pyi` has their types.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "domain.baselines": ("BaselineStats",),
    "domain.evidence": ("Evidence",),
    "domain.learning": ("RAGPattern",),
    "domain.queries": ("Band", "QueryConfig", "SearchMode"),
    "domain.results": ("Answer", "EvidenceItem", "EvidencePack", "Results", "RetrievalResult"),
    "domain.scopes": ("Identity",),
    "domain.sources": ("Document", "KnowledgeSource", "SourceDeclaration"),
    "errors": ("InvalidInputError", "OpxError"),
    "facade.aio": ("AsyncKnowledge",),
    "facade.knowledge": (
        "AttackSource",
        "GitHubIssuesSource",
        "Knowledge",
        "MSDocsSource",
        "NVDSource",
        "WebSearchSource",
    ),
    "settings": ("Settings",),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "AsyncKnowledge",
    "AttackSource",
    "Band",
    "BaselineStats",
    "Document",
    "Evidence",
    "EvidenceItem",
    "EvidencePack",
    "GitHubIssuesSource",
    "Identity",
    "InvalidInputError",
    "Knowledge",
    "KnowledgeSource",
    "MSDocsSource",
    "NVDSource",
    "OpxError",
    "QueryConfig",
    "RAGPattern",
    "Results",
    "RetrievalResult",
    "SearchMode",
    "Settings",
    "SourceDeclaration",
    "WebSearchSource",
]


def __getattr__(name: str) -> Any:
    """Imports a name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"opx.{_HOME[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
