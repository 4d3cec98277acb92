"""The route about research."""

from __future__ import annotations

from opx.api.declarations import Function, Route, text_field
from opx.api.fields import Field, Kind
from opx.api.reading_routes import CONFIG_FIELDS
from opx.domain.queries import MAX_QUERY_CHARACTERS
from opx.domain.research import DEFAULT_ITERATIONS, MOST_ITERATIONS

MAX_TOPIC = 100_000

RESEARCH = (
    Route(
        name="research",
        method="POST",
        path="/research",
        function=Function.RETRIEVE,
        about="Do several searches for a topic: for each part of it, and again for what is missing.",
        body=(
            text_field(
                "topic",
                f"What is to be found out; of a longer one than {MAX_QUERY_CHARACTERS:,} characters the beginning is read.",
                MAX_TOPIC,
                required=True,
                minimum=1,
            ),
            Field(
                "maxIterations",
                Kind.WHOLE,
                "How many rounds of searches at most.",
                default=DEFAULT_ITERATIONS,
                minimum=1,
                maximum=MOST_ITERATIONS,
            ),
            Field(
                "config",
                Kind.OBJECT,
                "Bounds every search; `maxResults` and `minConfidence` are those of the findings.",
                fields=CONFIG_FIELDS,
            ),
        ),
    ),
)
