"""The HTTP API's routes: address, function, who may call, what is taken. Everything about them is made from here: the
routes of API Gateway, the check of a request, and the OpenAPI document.
"""

from __future__ import annotations

from opx.api.baseline_routes import BASELINES
from opx.api.declarations import Function, Route, TokenScope
from opx.api.graph_routes import GRAPH_READING, GRAPH_WRITING
from opx.api.learning_routes import LEARNING_READING, LEARNING_WRITING
from opx.api.reading_routes import READING
from opx.api.research_routes import RESEARCH
from opx.api.source_routes import SOURCES
from opx.api.version_routes import VERSIONS
from opx.api.writing_routes import WRITING

__all__ = ["READING", "ROUTES", "WRITING", "Function", "Route", "TokenScope"]

_LEARNING = (*LEARNING_READING, *LEARNING_WRITING)
_CHANGING = (*GRAPH_READING, *GRAPH_WRITING, *VERSIONS)
ROUTES = {route.key: route for route in (*READING, *WRITING, *SOURCES, *BASELINES, *RESEARCH, *_CHANGING, *_LEARNING)}
"""By their keys, as API Gateway names them."""
