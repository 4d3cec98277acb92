"""The operation that researches."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from opx import wire
from opx.api.calls import Call
from opx.api.fields import Json

if TYPE_CHECKING:
    from opx.retrieval.research.researcher import Researcher


class ResearchReading:
    """A method a route of `research_routes`."""

    _researcher: partial[Researcher]

    def research(self, call: Call) -> Json:
        config = wire.config_from_json(call.body.get("config", {}))
        report = self._researcher().research_topic(call.body["topic"], call.body["maxIterations"], config)
        return wire.research_to_json(report)
