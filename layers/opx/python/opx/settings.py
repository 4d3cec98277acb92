"""All configuration of the library, read from the environment in this module only."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from opx.domain.queries import Fusion
from opx.errors import InvalidInputError

ENV_PREFIX = "OPX_"
MIN_CHUNK_TOKENS = 8
"""A character has up to four tokens; a window must hold more than that."""

MULTILINGUAL = "universal-sentence-encoder-multilingual"
"""A model that runs on this machine, if its package is installed."""

FIRST_COLLECTION, SECOND_COLLECTION = COLLECTIONS = ("blue", "green")
"""Names of the two search collections of a deployment on AWS, of which one is built beside the other to replace it."""

MANAGED_ENGINE = "bedrock_knowledge_base"
SEARCH_ENGINES = ("own", MANAGED_ENGINE)
KEEP, ENCRYPT = "keep", "encrypt"
"""Choices for the originals of documents with masked secrets."""

OCR_CHOICES = ("auto", "off", "tesseract", "textract")
ON_OR_OFF = ("on", "off")
DEPLOYED_KEY = "secretsmanager:"
"""Beginning of a signing key's name: the full name of a secret in Secrets Manager follows."""

RERANKERS = ("local", "bedrock", "chat", "off")
FOLDER = "folder"
"""The address of data in the home folder of this machine."""

PORT_SCHEMES: Mapping[str, Mapping[str, str]] = {
    "store": {FOLDER: FOLDER, "s3": "s3://BUCKET"},
    "tables": {FOLDER: FOLDER, "dynamodb": "dynamodb:PREFIX"},
    "queue": {FOLDER: FOLDER, "https": "https://ADDRESS-OF-A-QUEUE-OF-SQS", "http": "http://..."},
    "index": {
        FOLDER: FOLDER,
        "opensearch": "opensearch://HOST:PORT/NAME",
        "opensearch+https": "opensearch+https://USER:PASSWORD@HOST:PORT/NAME",
        "aoss": "aoss://HOST/NAME",
    },
    "embedder": {"local": "local:MODEL", "bedrock": "bedrock:MODEL"},
    "secrets": {FOLDER: FOLDER, "secretsmanager": "secretsmanager"},
}
"""Accepted schemes of each port's address, and their form."""

_SEARCHING: dict[str, tuple[str, ...]] = {
    "search_legs": ("both", "vector", "lexical"),
    "fusion": ("", *Fusion),
    "reranker": RERANKERS,
    "rewording": ON_OR_OFF,
    "learned_words": ON_OR_OFF,
    "warm_words": ON_OR_OFF,
    "research_planner": ("auto", "rules", "chat"),
}
"""Accepted values of the search settings."""

_CONFIDENTIAL = ("index", "api_token")
MOST_RESEARCH_SECONDS = 25.0
"""On AWS: five seconds less than the timeout of the HTTP API and the function."""


def _is_adapter(scheme: str) -> bool:
    """True for the scheme of an index adapter that a plugin provides. Backends and schemes of other ports are none."""
    from opx.plugins import ADAPTERS, names

    others = {"aws"}.union(*PORT_SCHEMES.values())
    return scheme not in others and scheme in names(ADAPTERS)


class Settings(Struct, frozen=True):
    """Names and limits. Each field is set by `OPX_` and its name in capitals, e.g. `OPX_HOME`.

    `backend` is `embedded` (one folder, no network) or `aws`. Times are in seconds, sizes in bytes. The last five name
    the deployed system that the `opx` command talks to, if any, and its credentials: `environment` is the name that the
    system was deployed under.

    `parse_*` limit the parsing of one file of a binary format: seconds of CPU (wall-clock time may be twice that), bytes
    of memory, unpacked bytes, pages, and pictures and scanned pages. `ocr` reads scanned pages: `tesseract` (in
    `ocr_languages`, such as `eng+deu`), `textract`, `off`, or `auto` for the one of the backend. `vision_model` describes
    pictures; empty for none. It is a model of Bedrock, or of the service at `vision_url` that understands OpenAI's Chat
    Completions, with the key in the secret named by `vision_secret`.

    `secret_originals` is `keep` or `encrypt`: originals of documents with masked secrets stay as they were uploaded, or are
    encrypted with the key in the secret named by `originals_key`, on AWS by its full name in Secrets Manager.

    `search_endpoint` is the address of the collection `search_collection` (`blue` or `green`) on AWS, and
    `next_search_endpoint` that of the other one, if there is one. `search_own_ids` is `on` or `off` for a collection that
    accepts ids of its clients, or assigns all itself; empty: as its generation usually does.

    `warm_words` is `on` where a segment of the corpus's words, of at most `warm_words_bytes`, answers while a sleeping
    collection wakes up.

    `embedding_model` is a model of Bedrock, or for the embedded backend `universal-sentence-encoder-multilingual`, if its
    package is installed; `model_path` is the folder of another sentence model there. The default model is built once into
    `cache_dir`, by default the user's folder for caches.

    `embedding_requests_per_minute` and `embedding_tokens_per_minute` are the account's quota of that model on Bedrock, 0
    where it is unknown: then the speed is found by trying. All workers share it. Vectors of documents are cached for
    `embedding_cache_days`, those of queries for `query_cache_days` (0: not at all).

    `allowed_hosts` lists, separated by commas, hosts (or host:port) that sources may be fetched from although their
    addresses are private. `internet` is `off` if this process has no way to the internet, as in a private network: sources
    there are refused at once. `pull_*` and `schedule_group` name the queue and the schedules of pulls on AWS;
    `stream_function` is the function that reads streams there, and `stream_failed_arn` the queue for records that it
    gives up. `checkpoint_queue_url` is the queue of checkpoint requests, `learning_failed_url` that of events that can't
    be learned from. `rebuild_queue_url` is the queue of reindex slices. Bulk jobs are executions of
    `bulk_state_machine` (an ARN), which processes `bulk_children` shards at once; batch inference reads and writes in the
    role `bulk_batch_role`, and the
    account allows `batch_jobs` at once, each of `batch_fewest_records` to `batch_most_records`.

    `store`, `tables`, `queue`, `index`, `embedder` and `secrets` are addresses that choose the adapter of one port each;
    an empty one means the backend's default (see `Settings.address`, which lists them).

    `gateway_secret` is the full name of the secret in Secrets Manager with which the agents' gateway signs its callers;
    empty: callers have no tokens, and the identity of this installation. `unsigned_gateway` is the name of a further
    gateway whose callers have none. The interceptor accepts tokens of `token_issuer` for one of `token_audience` and of one
    of `token_clients`, lists separated by commas, of which one may be empty.

    Graph expansion of results, if a query requests it, takes `graph_seconds` at most.

    `search_legs` is `both`, or `vector` or `lexical` for one leg alone; `fusion` is the method of combining both, the
    measured default if it is empty. `rewording` corrects and translates words that the corpus doesn't have,
    `learned_words` also searches pages that resolved incidents described with the same words; `off` disables either.
    `reranker` judges the candidates of thorough searches within `rerank_seconds`: `local`, `bedrock` (Bedrock Rerank with
    `rerank_model`), `chat` (the language model below), or `off`. The language model is `chat_model` of Bedrock, or of the
    service at `chat_url` that understands OpenAI's Chat Completions, with the key in the secret named by `chat_secret`.
    `research_planner` is `rules`, `chat`, or `auto` for the language model if one is set; research takes
    `research_seconds` at most. `context_model`, on the same service as `chat_model`, writes a sentence of context for
    each chunk during ingestion; empty for none. `graph_model`, there too, extracts relations from each chunk; empty for
    rules only. Rerankers and the language model are called at most `model_calls_per_minute` times by a process, 0 never;
    contexts and relations have limits of their own.

    `audit_days` is the retention of the audit log (caller, time and returned documents of each query); `gap_days` that of
    a question without a good answer, since its last occurrence. 0: not recorded; without the audit log no answer has a
    receipt.

    `monthly_budget` is the budget of the deployment in dollars a month, shown beside its estimated costs; 0 for none.

    `signing_key` signs seals (`opx seal`): the name of a secret, or the path of a file (with a `/`), with an Ed25519 key in
    PEM form; or `secretsmanager:` and the full name of a secret, which may be empty: then seals are not signed.
    """

    backend: str = "embedded"
    home: str = ".opx"
    store: str = ""
    tables: str = ""
    queue: str = ""
    index: str = ""
    embedder: str = ""
    secrets: str = ""
    knowledge_file: str = ""
    model_path: str = ""
    cache_dir: str = ""
    client_id: str = ""
    project_id: str = ""
    gateway_secret: str = ""
    unsigned_gateway: str = ""
    token_issuer: str = ""
    token_audience: str = ""
    token_clients: str = ""
    groups_claim: str = ""
    corpus_bucket: str = "opx-knowledge-corpus"
    table_prefix: str = ""
    ingest_queue_url: str = ""
    search_endpoint: str = ""
    search_index: str = "opx-knowledge"
    search_generation: str = "nextgen"
    search_own_ids: str = ""
    search_collection: str = FIRST_COLLECTION
    next_search_endpoint: str = ""
    next_search_generation: str = "nextgen"
    next_search_own_ids: str = ""
    search_engine: str = "own"
    knowledge_base_id: str = ""
    data_source_id: str = ""
    sync_queue_url: str = ""
    pull_queue_url: str = ""
    pull_queue_arn: str = ""
    pull_failed_arn: str = ""
    pull_role_arn: str = ""
    schedule_group: str = ""
    checkpoint_queue_url: str = ""
    rebuild_queue_url: str = ""
    bulk_state_machine: str = ""
    bulk_batch_role: str = ""
    bulk_children: int = 50
    batch_fewest_records: int = 100
    batch_most_records: int = 50_000
    batch_jobs: int = 20
    learning_failed_url: str = ""
    allowed_hosts: str = ""
    internet: str = "on"
    webhook_url: str = ""
    stream_function: str = ""
    stream_failed_arn: str = ""
    embedding_model: str = ""
    embedding_requests_per_minute: int = 0
    embedding_tokens_per_minute: int = 0
    embedding_threads: int = 0
    embedding_cache_days: int = 90
    query_cache_days: int = 7
    chunk_tokens: int = 500
    chunk_overlap: int = 50
    max_document_bytes: int = 100 * 1024 * 1024
    parse_seconds: float = 60.0
    parse_memory_bytes: int = 512 * 1024 * 1024
    parse_unpacked_bytes: int = 256 * 1024 * 1024
    parse_pages: int = 2000
    parse_images: int = 100
    ocr: str = "auto"
    ocr_languages: str = "eng"
    vision_model: str = ""
    vision_url: str = ""
    vision_secret: str = ""
    secret_originals: str = KEEP
    originals_key: str = "originals-key"
    max_attempts: int = 3
    retry_base_seconds: float = 1.0
    lease_seconds: int = 900
    search_timeout: float = 5.0
    warm_words: str = "off"
    warm_words_bytes: int = 128 * 1024 * 1024
    search_legs: str = "both"
    fusion: str = ""
    rewording: str = "on"
    learned_words: str = "on"
    reranker: str = "local"
    rerank_model: str = ""
    rerank_seconds: float = 1.5
    graph_seconds: float = 0.5
    chat_model: str = ""
    chat_url: str = ""
    chat_secret: str = ""
    context_model: str = ""
    graph_model: str = ""
    model_calls_per_minute: int = 60
    research_planner: str = "auto"
    research_seconds: float = 20.0
    audit_days: int = 365
    gap_days: int = 365
    monthly_budget: int = 0
    signing_key: str = ""
    log_level: str = "INFO"
    api_url: str = ""
    api_token: str = ""
    aws_profile: str = ""
    aws_region: str = ""
    environment: str = ""

    def __post_init__(self) -> None:
        if self.backend not in ("embedded", "aws"):
            raise InvalidInputError(f"OPX_BACKEND must be 'embedded' or 'aws', not {self.backend!r}")
        self._check_collections()
        self._check_addresses()
        self._check_search_engine()
        self._check_reading()
        self._check_searching()
        self._check_models()
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, int | float) and not value >= 0:
                raise InvalidInputError(f"{env_name(name)} must be at least 0, not {value}")
        if self.chunk_tokens < MIN_CHUNK_TOKENS:
            raise InvalidInputError(f"OPX_CHUNK_TOKENS must be at least {MIN_CHUNK_TOKENS}, not {self.chunk_tokens}")
        if not 0 <= self.chunk_overlap < self.chunk_tokens:
            raise InvalidInputError("OPX_CHUNK_OVERLAP must be at least 0 and below OPX_CHUNK_TOKENS")

    def __repr__(self) -> str:
        """All but what may have a password."""
        shown = (f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in _CONFIDENTIAL)
        return f"Settings({', '.join(shown)})"

    def address(self, port: str) -> str:
        """The address of a port's adapter:

        - store: `folder` (of the home), or `s3://BUCKET`
        - tables: `folder`, or `dynamodb:PREFIX` for tables whose names begin with PREFIX
        - queue: `folder`, or the https address of a queue of SQS
        - index: `folder`, `opensearch://[USER:PASSWORD@]HOST[:PORT]/NAME` or with `opensearch+https:` for a node, or
          `aoss://HOST/NAME` for OpenSearch Serverless
        - embedder: `local` or `bedrock`, with `:MODEL` for a model other than `embedding_model`
        - secrets: `folder`, or `secretsmanager`
        """
        return getattr(self, port) or self._backend_addresses()[port]

    @property
    def own_addresses(self) -> dict[str, str]:
        """The addresses that differ from the backend's, by port, without users and passwords."""
        given = {port: getattr(self, port) for port in PORT_SCHEMES}
        return {port: re.sub("//[^/]*@", "//", address) for port, address in given.items() if address}

    def _backend_addresses(self) -> Mapping[str, str]:
        if self.backend == "embedded":
            return {**dict.fromkeys(PORT_SCHEMES, FOLDER), "embedder": "local"}
        return {
            "store": f"s3://{self.corpus_bucket}",
            "tables": f"dynamodb:{self.table_prefix}",
            "queue": self.ingest_queue_url or "https:",
            "index": "aoss:",  # from `search_endpoint` and `search_index`
            "embedder": "bedrock",
            "secrets": "secretsmanager",
        }

    def _check_addresses(self) -> None:
        for port, allowed in PORT_SCHEMES.items():
            address = getattr(self, port)
            scheme = address.partition(":")[0]
            if address and scheme not in allowed and not (port == "index" and _is_adapter(scheme)):
                choices = " or ".join(map(repr, allowed.values()))
                raise InvalidInputError(f"{env_name(port)} must be {choices}, not {scheme!r}")
        if self.store.removeprefix("s3:").strip("/") == "" != self.store:
            raise InvalidInputError("OPX_STORE must name the bucket: s3://BUCKET")
        if self.address("queue") == FOLDER:
            return
        for port in ("store", "tables"):
            if self.address(port) == FOLDER:
                raise InvalidInputError(
                    f"functions work on the queue {self.address('queue')}, and can't see this machine's files: "
                    f"{env_name(port)} must not be 'folder', or {env_name('queue')} must"
                )

    @property
    def next_search_collection(self) -> str:
        """Name of the other collection."""
        return SECOND_COLLECTION if self.search_collection == FIRST_COLLECTION else FIRST_COLLECTION

    def _check_collections(self) -> None:
        accepted = {
            "search_collection": COLLECTIONS,
            "search_generation": ("nextgen", "classic"),
            "next_search_generation": ("nextgen", "classic"),
            "search_own_ids": ("", *ON_OR_OFF),
            "next_search_own_ids": ("", *ON_OR_OFF),
        }
        for name, values in accepted.items():
            if getattr(self, name) not in values:
                allowed = " or ".join(repr(value) if value else "empty" for value in values)
                raise InvalidInputError(f"{env_name(name)} must be {allowed}, not {getattr(self, name)!r}")

    def _check_search_engine(self) -> None:
        if self.search_engine not in SEARCH_ENGINES:
            allowed = " or ".join(map(repr, SEARCH_ENGINES))
            raise InvalidInputError(f"OPX_SEARCH_ENGINE must be {allowed}, not {self.search_engine!r}")
        if self.search_engine == MANAGED_ENGINE and not (self.knowledge_base_id and self.backend == "aws"):
            raise InvalidInputError(
                f"OPX_SEARCH_ENGINE={MANAGED_ENGINE} needs OPX_BACKEND=aws and OPX_KNOWLEDGE_BASE_ID"
            )

    def _check_reading(self) -> None:
        if self.internet not in ON_OR_OFF:
            raise InvalidInputError(f"OPX_INTERNET must be {' or '.join(map(repr, ON_OR_OFF))}, not {self.internet!r}")
        if self.ocr not in OCR_CHOICES:
            raise InvalidInputError(f"OPX_OCR must be {' or '.join(map(repr, OCR_CHOICES))}, not {self.ocr!r}")
        if self.secret_originals not in (KEEP, ENCRYPT):
            raise InvalidInputError(
                f"OPX_SECRET_ORIGINALS must be {KEEP!r} or {ENCRYPT!r}, not {self.secret_originals!r}"
            )
        if self.ocr == "textract" and self.backend != "aws":
            raise InvalidInputError("OPX_OCR=textract needs OPX_BACKEND=aws; install tesseract instead")
        if self.vision_model and not self.vision_url and self.backend != "aws":
            raise InvalidInputError("OPX_VISION_MODEL needs OPX_VISION_URL, the address of the service that has it")

    def _check_searching(self) -> None:
        for name, allowed in _SEARCHING.items():
            value = getattr(self, name)
            if value not in allowed:
                choices = " or ".join(repr(str(choice)) for choice in allowed)
                raise InvalidInputError(f"{env_name(name)} must be {choices}, not {value!r}")
        if self.backend == "aws" and self.research_seconds > MOST_RESEARCH_SECONDS:
            raise InvalidInputError(
                f"OPX_RESEARCH_SECONDS must be at most {MOST_RESEARCH_SECONDS:g} with OPX_BACKEND=aws, "
                f"not {self.research_seconds:g}: the HTTP API waits for 30 seconds"
            )

    def _check_models(self) -> None:
        """Checks that selected models are configured, and so is the service that has them."""
        if self.reranker == "bedrock" and not (self.rerank_model and self.backend == "aws"):
            raise InvalidInputError("OPX_RERANKER=bedrock needs OPX_BACKEND=aws and OPX_RERANK_MODEL")
        for name in ("reranker", "research_planner"):
            if getattr(self, name) == "chat" and not self.chat_model:
                raise InvalidInputError(f"{env_name(name)}=chat needs OPX_CHAT_MODEL")
        for name in ("chat_model", "context_model", "graph_model"):
            if getattr(self, name) and not self.chat_url and self.backend != "aws":
                raise InvalidInputError(f"{env_name(name)} needs OPX_CHAT_URL, the address of the service that has it")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], **overrides: object) -> Settings:
        """Read `OPX_*` variables; `overrides` win. Raises `InvalidInputError` for a value of the wrong type."""
        values: dict[str, object] = {}
        for name in cls.__struct_fields__:
            raw = environ.get(env_name(name))
            if raw is not None:
                values[name] = _convert(name, cls.__annotations__[name], raw)
        return cls(**{**values, **overrides})  # type: ignore[arg-type]

    @classmethod
    def of_process(cls) -> Settings:
        """The settings of this process's environment. Raises `InvalidInputError` as `from_environ`."""
        return cls.from_environ(os.environ)

    @property
    def private_hosts(self) -> tuple[str, ...]:
        """The hosts of `allowed_hosts`."""
        return listed(self.allowed_hosts)

    @property
    def home_path(self) -> Path:
        return Path(self.home).expanduser().absolute()


def listed(text: str) -> tuple[str, ...]:
    """The values of a list that is separated by commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def env_name(field_name: str) -> str:
    """The environment variable of a settings field."""
    return ENV_PREFIX + field_name.upper()


def secret_of_environment(name: str) -> str | None:
    """The value of the environment variable with a secret's name, if set."""
    return os.environ.get(name) or None


def environment_name() -> str:
    """`OPX_ENVIRONMENT` of this process, `local` without one: for metrics that are recorded before settings are read."""
    return os.environ.get(env_name("environment")) or "local"


def _convert(name: str, kind: str, raw: str) -> object:
    converters = {"int": int, "float": float, "str": str}
    try:
        return converters[kind](raw)
    except ValueError:
        raise InvalidInputError(f"{env_name(name)} must be of type {kind}, not {raw!r}") from None
