"""Ports on a vendor's services, which a distribution of their own provides, such as opx-aws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Protocol

from opx import plugins
from opx.errors import MissingExtraError

if TYPE_CHECKING:
    from opx import ports
    from opx.ingestion.indexing.editions import IndexService
    from opx.ports import bulk, models, queues, sources, telemetry
    from opx.runtime.speed_limit import SpeedLimit
    from opx.settings import Settings


class VendorPorts(Protocol):
    """Ports on the services of a vendor, made of settings, a clock and the ports that `bootstrap` was given. Addresses,
    models and names are those of the settings."""

    def load(self) -> None:
        """Imports the code that queries need. Opens no connection and needs no credentials."""

    def tables(self) -> ports.Tables: ...
    def storage(self) -> ports.Storage: ...
    def work(self) -> ports.WorkQueue: ...

    def secrets(self, *, of_sources: bool) -> sources.Secrets:
        """Those that sources may name, or all of them by their full names."""

    def functions(self) -> queues.Functions: ...
    def indexes(self) -> IndexService: ...

    def new_embedder(
        self, model: str, dimension: int, limits: MutableMapping[str, SpeedLimit], embeddings: Callable[[], ports.Table]
    ) -> ports.Embedder:
        """Calls a model within its limit of `limits`, which all workers share by the table."""

    def batch_embedder(self, model: str, dimension: int) -> bulk.BatchEmbedder | None:
        """None for a model without one."""

    def bulk_runner(self) -> bulk.BulkRunner: ...
    def new_chat(self, model: str) -> ports.ChatModel: ...
    def new_reranker(self, model: str) -> ports.Reranker: ...
    def ocr(self) -> models.Ocr: ...
    def describer(self) -> models.ImageDescriber: ...
    def managed_engine(self) -> ports.SearchEngine: ...
    def copies_of(self, store: ports.ObjectStore) -> ports.ChunkCopies: ...
    def index_sync(self) -> ports.IndexSync: ...
    def telemetry_stores(self) -> telemetry.TelemetryStores: ...
    def metric_reader(self) -> telemetry.MetricReader: ...

    def account(self) -> Any:
        """The vendor's account: the address of a deployed API, and the signature of its requests."""

    def operator(self, connect: Callable[[], Any]) -> Any:
        """An operator's access to the deployed system; `connect` makes a client of its HTTP API."""


def vendor(name: str) -> Callable[[Settings, ports.Clock, Mapping[str, Any]], VendorPorts]:
    """The class of the vendor with this backend or scheme of an address, an entry point of `opx.adapters`. Raises
    `MissingExtraError` if its distribution isn't installed."""
    provided = plugins.load(plugins.ADAPTERS, name, type)
    if provided is None:
        raise MissingExtraError("aws", "opx_aws")
    return provided
