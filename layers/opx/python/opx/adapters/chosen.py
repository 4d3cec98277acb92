"""Selects the adapter of each port by its address in the settings.

A port is opened on first use, and its adapter is imported then: a function that only searches never loads the code of
ingestion.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypedDict

from opx.domain.record import replace
from opx.ports.models import ParsingTools
from opx.ports.tables import EMBEDDINGS
from opx.settings import FOLDER, PORT_SCHEMES, Settings, secret_of_environment

if TYPE_CHECKING:
    from pathlib import Path

    from opx.adapters.embedded.home import HomeDatabases
    from opx.adapters.vendors import VendorPorts
    from opx.ingestion.indexing.capability import NewEmbedder
    from opx.ingestion.indexing.editions import IndexService
    from opx.ports import (
        ChatModel,
        ChunkCopies,
        Clock,
        Embedder,
        IndexSync,
        ObjectStore,
        Reranker,
        SearchEngine,
        SearchIndex,
        Storage,
        Table,
        Tables,
        UploadSigner,
        WorkQueue,
    )
    from opx.ports.bulk import BatchEmbedder, BulkRunner
    from opx.ports.files import StoreFiles
    from opx.ports.models import ImageDescriber, Ocr
    from opx.ports.queues import Functions
    from opx.ports.search import WordsSegments
    from opx.ports.sources import OpenWeb, Secrets
    from opx.ports.telemetry import MetricReader, TelemetryStores
    from opx.runtime.knowledge_file import Installation
    from opx.runtime.speed_limit import SpeedLimit


log = logging.getLogger(__name__)


class Given(TypedDict, total=False):
    """Ports that replace those of the settings."""

    aws: Callable[..., Any]
    batch_embedder: BatchEmbedder
    bulk_runner: BulkRunner
    chat: ChatModel
    embedder: Embedder
    functions: Functions
    index: SearchIndex
    indexes: IndexService
    metric_reader: MetricReader
    new_chat: Callable[[str], ChatModel]
    new_embedder: NewEmbedder
    secrets: Secrets
    storage: Storage
    store: ObjectStore
    tables: Tables
    telemetry_stores: TelemetryStores
    upload_signer: UploadSigner
    work: WorkQueue


class Ports:
    """The ports of an installation. Ports in `given` replace the adapters of the settings."""

    def __init__(self, installation: Installation, given: Given) -> None:
        self._installation = installation
        self.given = given
        self.speed_limits: dict[str, SpeedLimit] = {}
        self.remarks: list[str] = []
        self._vendors: dict[object, VendorPorts] = {}
        for name in ("tables", "storage", "work", "secrets", "functions", "indexes"):
            if (port := given.get(name)) is not None:
                setattr(self, name, port)  # in place of the one that the property opens

    @property
    def settings(self) -> Settings:
        return self._installation.settings

    @property
    def _clock(self) -> Clock:
        return self._installation.clock

    def load(self) -> None:
        """Imports the code that queries need. Opens no connection and needs no credentials."""
        if self.settings.backend == "aws":
            self._vendor("aws").load()

    def connect(self) -> None:
        """Creates the clients of the index, which load credentials."""
        connect = getattr(self.indexes, "connect", None)
        if connect:
            connect()

    def close(self) -> None:
        """Releases opened files and connections."""
        for name in ("tables", "_home"):
            if name in self.__dict__:
                self.__dict__[name].close()

    @cached_property
    def _home_folder(self) -> Path:
        """The home folder, which only its owner can read from now on."""
        from opx.adapters.embedded.durable_files import withdraw_rights_of_others
        from opx.adapters.embedded.home_format import check_format

        check_format(self.settings.home_path)
        if remark := withdraw_rights_of_others(self.settings.home_path):
            log.warning("%s", remark)
            self.remarks.append(remark)
        return self.settings.home_path

    @cached_property
    def _home(self) -> HomeDatabases:
        from opx.adapters.embedded.home import HomeDatabases

        return HomeDatabases(self._home_folder)

    def _vendor(self, name: str) -> VendorPorts:
        """The ports of the vendor with this backend or scheme of an address."""
        from opx.adapters.vendors import vendor

        provided = vendor(name)
        return self._vendors.setdefault(provided, provided(self.settings, self._clock, self.given))

    def _at(self, port: str) -> VendorPorts:
        """The ports of the vendor that a port's address names."""
        return self._vendor(self._scheme(port))

    def _scheme(self, port: str) -> str:
        return self.settings.address(port).partition(":")[0]

    @cached_property
    def tables(self) -> Tables:
        if self._scheme("tables") == FOLDER:
            from opx.adapters.embedded.home import HomeTables

            return HomeTables(self._home, self._clock)
        return self._at("tables").tables()

    @cached_property
    def storage(self) -> Storage:
        if self._scheme("store") == FOLDER:
            from opx.adapters.embedded.home import FolderStorage

            return FolderStorage(self._home_folder / "corpus")
        return self._at("store").storage()

    @cached_property
    def work(self) -> WorkQueue:
        if self._scheme("queue") == FOLDER:
            from opx.adapters.embedded.home import HomeWorkQueue

            return HomeWorkQueue(self._home, self._clock)
        return self._at("queue").work()

    @cached_property
    def secrets(self) -> Secrets:
        if self._scheme("secrets") == FOLDER:
            from opx.adapters.embedded.secrets import FileSecrets

            return FileSecrets(self.settings.home_path / "secrets.json", secret_of_environment)
        return self._at("secrets").secrets(of_sources=True)

    @cached_property
    def deployment_secrets(self) -> Secrets:
        """Secrets by their full names: those of the agents' gateway, of originals and of seals are none that sources may
        name."""
        if "secrets" in self.given or self._scheme("secrets") == FOLDER:
            return self.secrets
        return self._at("secrets").secrets(of_sources=False)

    @cached_property
    def functions(self) -> Functions:
        if self.work.in_process:
            from opx.ports.queues import ThisProcess

            return ThisProcess()
        return self._vendor("aws").functions()

    @cached_property
    def indexes(self) -> IndexService:
        scheme = self._scheme("index")
        if scheme == FOLDER:
            from opx.adapters.embedded.home import HomeIndexes

            return HomeIndexes(self._home_folder)
        if scheme in PORT_SCHEMES["index"]:
            return self._vendor(scheme).indexes()
        from opx import plugins

        opened: IndexService = plugins.used(plugins.ADAPTERS, scheme)(self.settings.index, self.settings)
        return opened

    @cached_property
    def words(self) -> WordsSegments:
        from opx.adapters.embedded.words import EmbeddedWords

        return EmbeddedWords()

    @property
    def files(self) -> StoreFiles | None:
        """The files of the home folder, where the settings put tables there."""
        if "tables" in self.given or self.settings.address("tables") != FOLDER or not self.settings.home_path.is_dir():
            return None
        from opx.adapters.embedded.home import QUEUE_NAME
        from opx.adapters.embedded.home_files import HomeFiles

        return HomeFiles(self._home_folder, queue=QUEUE_NAME, clock=self._clock)

    def new_embedder(self, model: str, model_path: str, dimension: int) -> Embedder:
        settings, given = self.settings, self.given.get("new_embedder")
        if given is not None:
            return given(model, model_path, dimension)
        if self._scheme("embedder") == "local":
            from opx.adapters.embedded.embedders import chosen_embedder

            return chosen_embedder(replace(settings, embedding_model=model, model_path=model_path))
        from opx.ingestion.indexing.query_vectors import CachedQueries

        embedder = self._at("embedder").new_embedder(model, dimension, self.speed_limits, self._embeddings)
        days = settings.query_cache_days
        return CachedQueries(embedder, self._embeddings, days=days, clock=self._clock) if days else embedder

    def _embeddings(self) -> Table:
        return self.tables.table(EMBEDDINGS)

    def bulk_runner(self) -> BulkRunner | None:
        """The given one, or that of the deployment; None on a machine, where the process that starts a job runs it."""
        given = self.given.get("bulk_runner")
        if given is not None or not self.settings.bulk_state_machine:
            return given
        return self._vendor("aws").bulk_runner()

    def batch_embedder(self, model: str = "", dimension: int = 0) -> BatchEmbedder | None:
        """The given one, or that of the deployment; None on a machine, whose cores embed, and for models without one."""
        given = self.given.get("batch_embedder")
        if given is not None or not self.settings.bulk_batch_role:
            return given
        return self._vendor("aws").batch_embedder(model, dimension)

    def new_chat(self, model: str) -> ChatModel:
        given = self.given.get("new_chat")
        if given is not None:
            return given(model)
        if self.settings.chat_url:
            from opx.adapters.openai_chat import chat_at_url

            return chat_at_url(self.settings, self.secrets, model)
        return self._vendor("bedrock").new_chat(model)

    def new_reranker(self, model: str) -> Reranker:
        return self._vendor("bedrock").new_reranker(model)

    def parsing_tools(self) -> ParsingTools:
        from opx.adapters.reading_tools import limits

        return ParsingTools(ocr=self._ocr(), describer=self._describer(), limits=limits(self.settings))

    def _ocr(self) -> Ocr | None:
        chosen, on_aws = self.settings.ocr, self.settings.backend == "aws"
        if chosen == "off":
            return None
        if chosen == "textract" or (chosen == "auto" and on_aws):
            return self._vendor("aws").ocr()
        from opx.adapters.reading_tools import tesseract

        return tesseract(self.settings)

    def _describer(self) -> ImageDescriber | None:
        settings = self.settings
        if not settings.vision_model:
            return None
        if settings.vision_url:
            from opx.adapters.reading_tools import describer_at_url

            return describer_at_url(settings, self.secrets)
        return self._vendor("bedrock").describer()

    def managed_engine(self) -> SearchEngine:
        return self._vendor("bedrock").managed_engine()

    def copies_of(self, store: ObjectStore) -> ChunkCopies | None:
        """Receives the same changes as the index, where a managed service builds its own index from the corpus store."""
        return self._vendor("aws").copies_of(store) if self.settings.sync_queue_url else None

    @cached_property
    def index_sync(self) -> IndexSync:
        """Starts ingestion jobs of the managed knowledge base for changed copies."""
        return self._vendor("aws").index_sync()

    def telemetry_stores(self) -> TelemetryStores | None:
        given = self.given.get("telemetry_stores")
        if given is not None or self.settings.backend != "aws":
            return given
        return self._vendor("aws").telemetry_stores()

    def metric_reader(self) -> MetricReader | None:
        given = self.given.get("metric_reader")
        if given is not None or self.settings.backend != "aws":
            return given
        return self._vendor("aws").metric_reader()

    @property
    def open_web(self) -> OpenWeb:
        from opx.adapters.web import open_web

        return open_web
