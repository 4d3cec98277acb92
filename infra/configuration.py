"""The options of a deployment, read from CDK context and validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from opx.adapters.aws.bedrock_embedder import DEFAULT_MODEL, embedding_model
from opx.adapters.aws.opensearch import GENERATIONS
from opx.errors import InvalidInputError
from opx.settings import MANAGED_ENGINE, ON_OR_OFF, RERANKERS, SEARCH_ENGINES, Settings

_ENVIRONMENT = re.compile(r"[a-z][a-z0-9]{0,9}\Z")
"""Ten characters leave room for the longest name with the environment as prefix: 32 for an access policy."""

CHOICES = {
    "architecture": ("arm64", "x86_64"),
    "python": ("3.12", "3.13", "3.14"),
    "search_generation": GENERATIONS,
    "agent": ("gateway", "classic", "none"),
    "agent_schema": ("function", "openapi"),
    "knowledge_base": ("none", "bedrock"),
    "search_engine": SEARCH_ENGINES,
    "api_auth": ("iam", "jwt", "none"),
    "ocr": ("textract", "off"),
    "reranker": RERANKERS,
    "rewording": ON_OR_OFF,
    "learned_words": ON_OR_OFF,
    "log_level": ("DEBUG", "INFO", "WARNING", "ERROR"),
}
"""Allowed values. `api_auth` none: no HTTP API at all, not an open one. Python 3.11 is missing because the C library of its
runtime is too old for the wheels of some packages."""

_BUCKETS = re.compile(r"([a-z0-9.-]{3,63}( *, *[a-z0-9.-]{3,63})*)?\Z")
_STREAM_ARN = r"arn:[a-z0-9-]+:(kinesis:[a-z0-9-]+:\d{12}:stream/|sqs:[a-z0-9-]+:\d{12}:)[A-Za-z0-9_.-]+"
_STREAM_ARNS = re.compile(rf"({_STREAM_ARN}( *, *{_STREAM_ARN})*)?\Z")
DEFAULT_AGENT_MODEL = "amazon.nova-lite-v1:0"
_MODEL = r"[a-z0-9-]+(\.[a-z0-9-]+)+(:[a-z0-9-]+){0,2}"
_MODEL_ID, _OPTIONAL_MODEL = re.compile(rf"{_MODEL}\Z"), re.compile(rf"({_MODEL})?\Z")
DEFAULT_INDEX, DEFAULT_RERANKER = Settings().search_index, Settings().reranker
OWN_KEY = "own"
_INDEX = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_KEY_ARN = re.compile(r"arn:[a-z0-9-]+:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+\Z")

_FORMS = {
    "environment": (_ENVIRONMENT, "1 to 10 lower-case letters and digits, a letter first"),
    "agent_model": (_MODEL_ID, "the id of a model or of a cross-region inference profile"),
    "search_index": (_INDEX, "1 to 32 lower-case letters, digits and -, a letter first"),
    "vision_model": (_OPTIONAL_MODEL, "the id of a model that sees, or of a cross-region inference profile"),
    "rerank_model": (_OPTIONAL_MODEL, "the id of a model that reranks, such as cohere.rerank-v3-5:0"),
    "chat_model": (_OPTIONAL_MODEL, "the id of a language model, or of a cross-region inference profile"),
    "context_model": (_OPTIONAL_MODEL, "the id of a language model, or of a cross-region inference profile"),
    "graph_model": (_OPTIONAL_MODEL, "the id of a language model, or of a cross-region inference profile"),
    "source_buckets": (_BUCKETS, "names of buckets, separated by commas"),
    "stream_arns": (_STREAM_ARNS, "ARNs of Kinesis streams and SQS queues, separated by commas"),
}
"""Patterns of values, each with a description for error messages."""

_FOREIGN = re.compile(r"[:/@]")
"""Context keys of CDK itself and of its look-ups all have one of these characters."""


class ContextError(InvalidInputError):
    """A context key or value that isn't known; the message lists what is allowed."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One environment. Each field is the context key of its name: `cdk synth -c environment=prod`.

    `account` and `region` empty: the template fits every account and region. `ephemeral`: stateful resources are
    deleted with their stack. `bundle`: layers contain their dependencies, which takes network. `corpus_bucket` and
    `deploy_role` (an ARN) replace the names that follow from the environment. `client_id` and `project_id` are the
    identity of callers that state none. `agent_model` and `agent_schema` are the classic agent's. `search_endpoint` and
    `search_arn` name an existing collection to use instead of one of our own; another `search_index` is a new, empty
    index; `search_standby` false leaves out the replicas of a classic one. `next_embedding_model` is a further model
    that functions may call, so that a new index can be built for it. `search_engine` selects the engine that answers
    questions if there is also a managed knowledge base. `kms_key`: empty for keys of AWS, `own` for a key of this
    environment, or a key's ARN. `ingest_concurrency` and `query_concurrency` 0 reserve nothing, for accounts whose
    quota is too small for it. Lists separated by commas are `jwt_audience`, `allowed_hosts` (hosts that sources may be
    fetched from although their addresses are private), `source_buckets` (buckets that may be sources) and `stream_arns`
    (Kinesis and SQS streams that may be subscribed to at run time). `vision_model`, none if empty, describes pictures.
    `reranker` judges the candidates of thorough searches: the library itself, Bedrock's `rerank_model`, or
    `chat_model`, which also plans searches; `rewording` corrects and translates words of queries, and `learned_words`
    learns words of queries for pages that resolved incidents. `context_model` writes a sentence about each chunk during
    ingestion, and `graph_model` extracts relations from it. `webhooks`: other services may send deliveries, to an
    address of their own."""

    environment: str = "dev"
    account: str = ""
    region: str = ""
    architecture: str = "arm64"
    python: str = "3.13"
    search_generation: str = "nextgen"
    search_endpoint: str = ""
    search_arn: str = ""
    search_index: str = DEFAULT_INDEX
    search_standby: bool = True
    embedding_model: str = DEFAULT_MODEL
    next_embedding_model: str = ""
    corpus_bucket: str = ""
    deploy_role: str = ""
    client_id: str = ""
    project_id: str = ""
    agent: str = "gateway"
    agent_model: str = DEFAULT_AGENT_MODEL
    agent_schema: str = "function"
    knowledge_base: str = "none"
    search_engine: str = "own"
    api_auth: str = "iam"
    jwt_issuer: str = ""
    jwt_audience: str = ""
    kms_key: str = ""
    alarm_email: str = ""
    log_level: str = "INFO"
    ingest_concurrency: int = 10
    query_concurrency: int = 50
    allowed_hosts: str = ""
    source_buckets: str = ""
    stream_arns: str = ""
    ocr: str = "textract"
    vision_model: str = ""
    reranker: str = DEFAULT_RERANKER
    rerank_model: str = ""
    chat_model: str = ""
    rewording: str = "on"
    learned_words: str = "on"
    context_model: str = ""
    graph_model: str = ""
    vpc: bool = False
    webhooks: bool = False
    snapstart: bool = True
    ephemeral: bool = False
    bundle: bool = False

    def __post_init__(self) -> None:
        for key, (form, words) in _FORMS.items():
            if not form.match(getattr(self, key)):
                raise _refusal(key, getattr(self, key), words)
        for key, allowed in CHOICES.items():
            if getattr(self, key) not in allowed:
                raise _refusal(key, getattr(self, key), ", ".join(allowed))
        for key in ("embedding_model", "next_embedding_model"):
            try:
                embedding_model(getattr(self, key) or DEFAULT_MODEL)
            except InvalidInputError as exc:
                raise ContextError(f"context {key}: {exc}") from exc
        if self.kms_key not in ("", OWN_KEY) and not _KEY_ARN.match(self.kms_key):
            raise _refusal("kms_key", self.kms_key, f"{OWN_KEY}, or the ARN of a key")
        for key in ("ingest_concurrency", "query_concurrency"):
            if getattr(self, key) not in (0, *range(2, 1001)):
                raise _refusal(key, getattr(self, key), "0 (nothing reserved), 2 to 1000")
        self._check_pairs()

    def _check_pairs(self) -> None:
        """Raises `ContextError` for keys that are valid only together, or exclude each other."""
        if bool(self.search_endpoint) != bool(self.search_arn):
            raise ContextError("context search_endpoint and search_arn go together: give both, or neither")
        if (self.api_auth == "jwt") != bool(self.jwt_issuer and self.jwt_audience):
            raise ContextError("context api_auth=jwt needs jwt_issuer and jwt_audience, which mean nothing without it")
        if self.search_engine == MANAGED_ENGINE and self.knowledge_base != "bedrock":
            raise ContextError(f"context search_engine={MANAGED_ENGINE} needs knowledge_base=bedrock")
        if (self.reranker == "bedrock") != bool(self.rerank_model):
            raise ContextError("context reranker=bedrock needs rerank_model, which means nothing without it")
        if self.reranker == "chat" and not self.chat_model:
            raise ContextError("context reranker=chat needs chat_model")
        if self.webhooks and self.vpc:
            raise ContextError(
                "context webhooks=true and vpc=true exclude each other: the network has no access to Secrets Manager"
            )
        if self.project_id and not self.client_id:
            raise ContextError("context project_id needs client_id: a project is a client's")

    @property
    def subscribable(self) -> list[str]:
        """The ARNs of `stream_arns`."""
        return [arn.strip() for arn in self.stream_arns.split(",") if arn.strip()]

    @classmethod
    def from_context(cls, context: Mapping[str, Any]) -> Deployment:
        """The deployment that a context describes. Raises `ContextError` for an unknown key or value; keys of CDK are
        ignored."""
        allowed = [field.name for field in fields(cls)]
        own = {key: value for key, value in context.items() if not _FOREIGN.search(key)}
        for key in own:
            if key not in allowed:
                raise ContextError(f"unknown context key {key!r}; allowed: {', '.join(allowed)}")
        kinds = {field.name: str(field.type) for field in fields(cls)}
        values: dict[str, Any] = {key: _converted(key, kinds[key], value) for key, value in own.items()}
        return cls(**values)


def _converted(key: str, kind: str, value: object) -> object:
    if kind == "bool":
        return _flag(key, value)
    return _number(key, value) if kind == "int" else str(value)


def _flag(key: str, value: object) -> bool:
    """A boolean: a string on the command line, a JSON value in cdk.json."""
    known = {"true": True, "false": False}
    text = str(value).lower()
    if text not in known:
        raise _refusal(key, value, "true, false")
    return known[text]


def _number(key: str, value: object) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise _refusal(key, value, "a whole number") from None


def _refusal(key: str, value: object, allowed: str) -> ContextError:
    return ContextError(f"context {key}={value} is not known; allowed: {allowed}")
