"""Baselines of the services in this process, as far as one identity may see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opx.domain.baselines import AddedValues, BaselineStats, SeriesView

if TYPE_CHECKING:
    from opx.domain.scopes import Reader, Scope
    from opx.services import Services


class LocalBaselines:
    """The part of a knowledge base that is about baselines."""

    _services: Services

    if TYPE_CHECKING:

        @property
        def scope(self) -> Scope: ...

        def _reader(self) -> Reader: ...

    def baseline(self, node: str, metric: str, time_window: str = "7d") -> BaselineStats:
        return self._services.baselines.get(self._reader(), node, metric, time_window)

    def baseline_series(self) -> Sequence[SeriesView]:
        return self._services.baselines.series(self._reader())

    def add_values(self, values: Sequence[Mapping[str, Any]], *, batch_id: str = "") -> AddedValues:
        return self._services.baselines.add(values, scope=self.scope, batch_id=batch_id)
