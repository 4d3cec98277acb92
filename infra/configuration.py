"""The options of a deployment, read from CDK context and validated."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from infra import console_choices
from opx.errors import InvalidInputError
from opx.settings import (
    COLLECTIONS,
    ENCRYPT,
    FIRST_COLLECTION,
    KEEP,
    MANAGED_ENGINE,
    ON_OR_OFF,
    RERANKERS,
    SEARCH_ENGINES,
    SECOND_COLLECTION,
    Settings,
)
from opx_aws.bedrock_embedder import DEFAULT_MODEL, embedding_model
from opx_aws.opensearch import GENERATIONS

_ENVIRONMENT = re.compile(r"[a-z][a-z0-9]{0,9}\Z")
"""Ten characters leave room for the longest name with the environment as prefix: 32 for an access policy."""

CHOICES = {
    "architecture": ("arm64", "x86_64"),
    "python": ("3.12", "3.13", "3.14"),
    "search_collection": COLLECTIONS,
    "search_generation": GENERATIONS,
    "next_search_generation": ("", *GENERATIONS),
    "agent": ("gateway", "classic", "none"),
    "agent_schema": ("function", "openapi"),
    "gateway_auth": ("iam", "jwt", "both"),
    "knowledge_base": ("none", "bedrock"),
    "search_engine": SEARCH_ENGINES,
    "api_auth": ("iam", "jwt", "none"),
    "ocr": ("textract", "off"),
    "reranker": RERANKERS,
    "rewording": ON_OR_OFF,
    "learned_words": ON_OR_OFF,
    "backup": ("none", "daily"),
    "console_price_class": console_choices.PRICE_CLASSES,
    "secret_originals": (KEEP, ENCRYPT),
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
MIN_OCUS = (0, 1, 2, 4, 8)
"""Values that the service accepts (developer guide, "Collection group capacity limits"), up to our maximum."""

AUTO = "auto"
FEWEST_WORKERS, MOST_WORKERS = 2, 10
"""Lambda accepts no fewer for a queue; more would load the collection."""

TOKENS_A_CHUNK = 300
_CONCURRENCY = (0, *range(2, 1001))
_INDEX = re.compile(r"[a-z][a-z0-9-]{0,31}\Z")
_KEY_ARN = re.compile(r"arn:[a-z0-9-]+:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+\Z")

_ISSUER = re.compile(r"(https://[^\s?#]+)?\Z")
_AWAKE = re.compile(r"((weekdays|daily) ([01]?\d|2[0-3])-([01]?\d|2[0-4])( [A-Za-z]+(/[A-Za-z_]+){0,2})?)?\Z")

_FORMS = {
    "awake": (_AWAKE, "weekdays or daily, hours, and a time zone unless UTC, such as 'weekdays 7-19 Europe/Berlin'"),
    "environment": (_ENVIRONMENT, "1 to 10 lower-case letters and digits, a letter first"),
    "jwt_issuer": (_ISSUER, "the https address of the tokens' issuer, as in their claim iss"),
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

ALL_ENDPOINTS = "all"
_ZONE_NAME, _ZONE_ID = r"[a-z]{2}(-[a-z]+)+-\d[a-z]", r"[a-z]{3,5}\d-az\d"


def _ids(kind: str) -> str:
    return rf"{kind}-[0-9a-f]{{8,17}}"


def _several(form: str) -> re.Pattern[str]:
    return re.compile(rf"({form}( *, *{form})*)?\Z")


_NETWORK_FORMS = {
    "vpc_id": (re.compile(rf"({_ids('vpc')})?\Z"), "the id of a VPC"),
    "vpc_subnets": (_several(_ids("subnet")), "ids of subnets, separated by commas"),
    "vpc_route_tables": (_several(_ids("rtb")), "ids of route tables, separated by commas"),
    "vpc_security_group": (re.compile(rf"({_ids('sg')})?\Z"), "the id of a security group"),
    "vpc_endpoints": (_several("[a-z0-9-]+"), f"{ALL_ENDPOINTS}, or names such as sqs, bedrock-runtime, s3"),
    "vpc_collection_endpoint": (re.compile(r"(vpce-[0-9a-z]+)?\Z"), "the id of a VPC endpoint"),
    "vpc_zones": (
        re.compile(rf"({_several(_ZONE_NAME).pattern}|{_several(_ZONE_ID).pattern})"),
        "names of zones (eu-central-1a) or ids (euc1-az2), separated by commas",
    ),
}
"""Patterns of the choices for a private network."""

_EXISTING_NETWORK = ("vpc_subnets", *list(_NETWORK_FORMS)[2:6], "vpc_internet")
"""Choices that mean nothing without an existing VPC."""

_QUOTAS = (
    "embedding_requests_per_minute",
    "embedding_tokens_per_minute",
    "batch_fewest_records",
    "batch_most_records",
    "batch_jobs",
)
MOST_CHILDREN = 10_000
"""Children of a distributed map that Step Functions runs at once."""

_FOREIGN = re.compile(r"[:/@]")
"""Context keys of CDK itself and of its look-ups all have one of these characters."""


class ContextError(InvalidInputError):
    """A context key or value that isn't known; the message lists what is allowed."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One environment. Each field is the context key of its name: `cdk synth -c environment=prod`.

    `account` and `region` empty: the template fits every account and region. `ephemeral`: stateful resources are
    deleted with their stack. `bundle`: layers contain their dependencies, which takes network. `corpus_bucket`
    replaces the name that follows from the environment. `client_id` and `project_id` are the identity of callers that state
    none. `agent_model` and `agent_schema` are the classic agent's. `gateway_auth` selects the callers of the agents' gateway:
    IAM roles, holders of tokens (`jwt`), or both, through a gateway each. `search_endpoint` and
    `search_arn` name an existing collection to use instead of one of our own; another `search_index` is a new, empty
    index; `search_standby` false leaves out the replicas of a classic one. `search_min_ocu` is the least capacity for
    searches of a next-generation collection, which never sleeps unless it is 0; `awake` are hours during which it is kept
    awake, and `wake_on_alarms` wakes it when any alarm of the account goes off or an incident is delivered. `warm_words`:
    questions to a sleeping collection are answered by words alone, from a segment of the corpus in the bucket.
    `search_collection` is the name of the collection that these describe, `blue` or `green`. With
    `next_search_generation` there is a collection of the other name, too, which an index can be built in;
    `next_search_standby` is for that one.
    `next_embedding_model` is a further model that functions may call, so that a new index can be built for it.
    `search_engine` selects the engine that answers questions if there is also a managed knowledge base. `kms_key`: empty
    for keys of AWS, `own` for a key of this environment, or a key's ARN. `ingest_concurrency` and `query_concurrency` 0
    reserve nothing, for accounts whose quota is too small for it; `auto` follows from the account's quota of the
    embedding model, which `embedding_requests_per_minute` and `embedding_tokens_per_minute` are, 0 where it is unknown.
    Lists separated by commas are `jwt_audience` (values of the claim `aud`), `jwt_clients` (values of `client_id`, for
    issuers whose tokens have no audience), `allowed_hosts` (hosts that sources may be fetched from although their
    addresses are private), `source_buckets` (buckets that may be sources) and `stream_arns` (Kinesis and SQS streams that
    may be subscribed to at run time). `vision_model`, none if empty, describes pictures.
    `reranker` judges the candidates of thorough searches: the library itself, Bedrock's `rerank_model`, or
    `chat_model`, which also plans searches; `rewording` corrects and translates words of queries, and `learned_words`
    learns words of queries for pages that resolved incidents. `budget_usd`: dollars a month of which a budget notifies,
    0 for none; `audit_days` and `gap_days` are how long records of queries and of gaps are kept, 0 for not at all.
    `canary`: searches for a question every hour; an alarm goes off if it isn't searched. `backup` daily: a recovery point
    of tables and bucket every day, kept for `backup_days`, and one a month, kept for a year. `secret_originals` encrypt:
    originals of documents with masked secrets are encrypted with a key that ingestion alone may read.
    `context_model` writes a sentence about each chunk during ingestion, and `graph_model` extracts relations from it.
    `console`: the console is served to browsers, whose readers sign in at a user pool made here, or as `console_client` of
    `console_issuer` with `console_scopes`; the groups in their claim `console_groups_claim` are their roles. It has an
    address of CloudFront, or `console_domain` with `console_certificate`, entered in `console_zone` if given, behind
    `console_web_acl` if given; `console_logs` keeps CloudFront's log, and `console_price_class` selects its locations.
    `bulk`: a state machine for bulk jobs, whose stages are processed by `bulk_children` functions at once;
    `batch_fewest_records`, `batch_most_records` and `batch_jobs` are the account's quotas of batch inference with the
    embedding model, 0 where they are unknown.
    `webhooks`: other services may send deliveries, to an address of their own. `vpc`: functions run in a private
    network. It is made in two zones, or in `vpc_zones` (names or ids), or is the existing `vpc_id` with `vpc_subnets` in
    different zones, `vpc_route_tables` (one for each subnet, in their order), and, if given, `vpc_security_group` for
    functions. `vpc_endpoints` are the services which that VPC reaches already, `all` or by the names of their endpoints;
    `vpc_collection_endpoint` is its endpoint of collections. `vpc_internet`: it has a way to the internet."""

    environment: str = "dev"
    account: str = ""
    region: str = ""
    architecture: str = "arm64"
    python: str = "3.13"
    search_collection: str = FIRST_COLLECTION
    search_generation: str = "nextgen"
    next_search_generation: str = ""
    next_search_standby: bool = True
    search_endpoint: str = ""
    search_arn: str = ""
    search_index: str = DEFAULT_INDEX
    search_standby: bool = True
    search_min_ocu: int = 0
    awake: str = ""
    wake_on_alarms: bool = False
    warm_words: bool = True
    embedding_model: str = DEFAULT_MODEL
    next_embedding_model: str = ""
    corpus_bucket: str = ""
    client_id: str = ""
    project_id: str = ""
    agent: str = "gateway"
    agent_model: str = DEFAULT_AGENT_MODEL
    agent_schema: str = "function"
    gateway_auth: str = "iam"
    knowledge_base: str = "none"
    search_engine: str = "own"
    api_auth: str = "iam"
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_clients: str = ""
    kms_key: str = ""
    alarm_email: str = ""
    budget_usd: int = 0
    canary: bool = False
    backup: str = "none"
    backup_days: int = 14
    secret_originals: str = KEEP
    audit_days: int = Settings().audit_days
    gap_days: int = Settings().gap_days
    log_level: str = "INFO"
    embedding_requests_per_minute: int = 0
    embedding_tokens_per_minute: int = 0
    ingest_concurrency: str = AUTO
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
    vpc_id: str = ""
    vpc_subnets: str = ""
    vpc_route_tables: str = ""
    vpc_security_group: str = ""
    vpc_endpoints: str = ""
    vpc_collection_endpoint: str = ""
    vpc_internet: bool = False
    vpc_zones: str = ""
    webhooks: bool = False
    bulk: bool = False
    bulk_children: int = 50
    batch_fewest_records: int = 0
    batch_most_records: int = 0
    batch_jobs: int = 0
    console: bool = False
    console_issuer: str = ""
    console_client: str = ""
    console_scopes: str = "openid email profile"
    console_groups_claim: str = ""
    console_domain: str = ""
    console_certificate: str = ""
    console_zone: str = ""
    console_web_acl: str = ""
    console_logs: bool = False
    console_price_class: str = "100"
    snapstart: bool = True
    ephemeral: bool = False
    bundle: bool = False

    def __post_init__(self) -> None:
        for key, (form, words) in {**_FORMS, **_NETWORK_FORMS, **console_choices.FORMS}.items():
            if not form.match(getattr(self, key)):
                raise _refusal(key, getattr(self, key), words)
        for key, allowed in CHOICES.items():
            if getattr(self, key) not in allowed:
                raise _refusal(key, getattr(self, key), ", ".join(filter(None, allowed)))
        for key in ("embedding_model", "next_embedding_model"):
            try:
                embedding_model(getattr(self, key) or DEFAULT_MODEL)
            except InvalidInputError as exc:
                raise ContextError(f"context {key}: {exc}") from exc
        if self.kms_key not in ("", OWN_KEY) and not _KEY_ARN.match(self.kms_key):
            raise _refusal("kms_key", self.kms_key, f"{OWN_KEY}, or the ARN of a key")
        self._check_numbers()
        self._check_waking()
        self._check_collections()
        self._check_pairs()

    def _check_waking(self) -> None:
        if self.search_generation == "classic" and (self.search_min_ocu or self.awake):
            raise ContextError(
                "context search_min_ocu and awake are for next-generation collections: a classic one never sleeps"
            )
        if self.search_min_ocu and self.awake:
            raise ContextError("context awake means nothing with search_min_ocu: the collection never sleeps")
        if self.awake and self.awake_hours[0] >= self.awake_hours[1]:
            raise _refusal("awake", self.awake, "hours of one day, the first before the last")

    def _check_numbers(self) -> None:
        own = 0 if self.ingest_concurrency == AUTO else _number("ingest_concurrency", self.ingest_concurrency)
        if own not in _CONCURRENCY:
            raise _refusal("ingest_concurrency", self.ingest_concurrency, f"{AUTO}, 0 (nothing reserved), 2 to 1000")
        if self.query_concurrency not in _CONCURRENCY:
            raise _refusal("query_concurrency", self.query_concurrency, "0 (nothing reserved), 2 to 1000")
        if self.bulk_children not in range(1, MOST_CHILDREN + 1):
            raise _refusal("bulk_children", self.bulk_children, f"1 to {MOST_CHILDREN}")
        for key in _QUOTAS:
            if getattr(self, key) < 0:
                raise _refusal(key, getattr(self, key), "0 (unknown), or the quota")
        if self.backup_days < 1:
            raise _refusal("backup_days", self.backup_days, "1 or more")
        for key in ("budget_usd", "audit_days", "gap_days"):
            if getattr(self, key) < 0:
                raise _refusal(key, getattr(self, key), "0 or more")
        if self.search_min_ocu not in MIN_OCUS:
            raise _refusal("search_min_ocu", self.search_min_ocu, ", ".join(map(str, MIN_OCUS)))

    def _check_collections(self) -> None:
        """Raises `ContextError` if a second collection, or one of the second name, is not possible."""
        if self.search_collection == FIRST_COLLECTION and not self.next_search_generation:
            return
        if self.search_endpoint:
            raise ContextError(
                "context search_collection and next_search_generation are for collections made here: leave out "
                "search_endpoint"
            )
        if self.knowledge_base == "bedrock":
            raise ContextError(
                "context knowledge_base=bedrock keeps its index in the first collection: it excludes "
                "search_collection=green and next_search_generation"
            )
        generations = {self.search_generation, self.next_search_generation} - {""}
        if self.vpc_collection_endpoint and len(generations) > 1:
            raise ContextError(
                "context vpc_collection_endpoint is of one generation: leave it out while there are collections of both"
            )

    def _check_pairs(self) -> None:
        """Raises `ContextError` for keys that are valid only together, or exclude each other."""
        if bool(self.search_endpoint) != bool(self.search_arn):
            raise ContextError("context search_endpoint and search_arn go together: give both, or neither")
        tokens = self.api_auth == "jwt" or self.gateway_takes_tokens
        if tokens != bool(self.jwt_issuer and (self.jwt_audience or self.jwt_clients)):
            raise ContextError(
                "context api_auth=jwt and gateway_auth=jwt or both need jwt_issuer, and jwt_audience or jwt_clients, which "
                "mean nothing without one of them"
            )
        if self.gateway_takes_tokens and self.agent != "gateway":
            raise ContextError(f"context gateway_auth={self.gateway_auth} needs agent=gateway")
        if self.search_engine == MANAGED_ENGINE and self.knowledge_base != "bedrock":
            raise ContextError(f"context search_engine={MANAGED_ENGINE} needs knowledge_base=bedrock")
        if (self.reranker == "bedrock") != bool(self.rerank_model):
            raise ContextError("context reranker=bedrock needs rerank_model, which means nothing without it")
        if self.reranker == "chat" and not self.chat_model:
            raise ContextError("context reranker=chat needs chat_model")
        if self.project_id and not self.client_id:
            raise ContextError("context project_id needs client_id: a project is a client's")
        for contradiction in console_choices.contradictions(self):
            raise ContextError(contradiction)
        self._check_network()

    def _check_network(self) -> None:
        """Raises `ContextError` for choices of a network that contradict each other."""
        for key in (*_NETWORK_FORMS, "vpc_internet"):
            if getattr(self, key) and not self.vpc:
                raise ContextError(f"context {key} needs vpc=true")
        for key in _EXISTING_NETWORK:
            if getattr(self, key) and not self.vpc_id:
                raise ContextError(f"context {key} needs vpc_id, an existing VPC: the network made here has none of it")
        if self.vpc_id and self.vpc_zones:
            raise ContextError("context vpc_zones and vpc_id exclude each other: subnets that exist have their zones")
        for key in ("vpc_zones", "vpc_subnets"):
            chosen = listed(getattr(self, key))
            if len(set(chosen)) != len(chosen) or len(chosen) == 1:
                raise ContextError(f"context {key} needs two or more, each once: functions run in several zones")
        if self.vpc_id:
            self._check_existing_network()

    def _check_existing_network(self) -> None:
        """Raises `ContextError` if subnets are missing, or the routes to services without an interface."""
        subnets, tables = listed(self.vpc_subnets), listed(self.vpc_route_tables)
        if not subnets:
            raise ContextError("context vpc_id needs vpc_subnets, two or more of it in different zones")
        missing = {"s3", "dynamodb"}.difference(listed(self.vpc_endpoints))
        if missing and self.vpc_endpoints != ALL_ENDPOINTS and len(tables) != len(subnets):
            raise ContextError(
                f"context vpc_id: endpoints for {' and '.join(sorted(missing))} are routes: give vpc_route_tables, one for "
                "each of vpc_subnets in their order, or name them in vpc_endpoints if the VPC has them"
            )

    @property
    def gateway_takes_tokens(self) -> bool:
        """True if callers of the agents' gateway may have tokens."""
        return self.gateway_auth != "iam"

    @property
    def encrypts_originals(self) -> bool:
        """True if originals of documents with masked secrets are encrypted."""
        return self.secret_originals == ENCRYPT

    @property
    def may_sleep(self) -> bool:
        """True if a collection stops while it is idle."""
        sleeping = self.search_generation == "nextgen" and not self.search_min_ocu
        return sleeping or self.next_search_generation == "nextgen"

    @property
    def keeps_words(self) -> bool:
        """True if segments of the corpus's words are made, for a collection that may sleep."""
        return self.warm_words and self.may_sleep and self.search_engine != MANAGED_ENGINE

    @property
    def following(self) -> Deployment | None:
        """The same deployment with the other collection, which an index can be built in; None without one."""
        if not self.next_search_generation:
            return None
        return replace(
            self,
            search_collection=SECOND_COLLECTION if self.search_collection == FIRST_COLLECTION else FIRST_COLLECTION,
            search_generation=self.next_search_generation,
            search_standby=self.next_search_standby,
            search_min_ocu=0,
            awake="",
            next_search_generation="",
            next_search_standby=True,
        )

    @property
    def awake_hours(self) -> tuple[int, int]:
        """First and last hour of `awake`, the last excluded."""
        first, _, last = self.awake.split(" ")[1].partition("-")
        return int(first), int(last)

    @property
    def awake_zone(self) -> str:
        """The time zone of `awake`."""
        return self.awake.split(" ")[2] if self.awake.count(" ") > 1 else "UTC"

    @property
    def ingest_workers(self) -> int:
        """Concurrent executions of ingestion; 0 reserves none. One for each text that the quota allows in a second keeps the
        model busy while others read and write; more would only wait for their turn."""
        if self.ingest_concurrency != AUTO:
            return int(self.ingest_concurrency)
        texts = embedding_model(self.embedding_model).texts_a_call * self.embedding_requests_per_minute
        allowed = [each for each in (texts, self.embedding_tokens_per_minute / TOKENS_A_CHUNK) if each]
        return max(FEWEST_WORKERS, min(MOST_WORKERS, round(min(allowed) / 60))) if allowed else MOST_WORKERS

    @property
    def subscribable(self) -> list[str]:
        """The ARNs of `stream_arns`."""
        return listed(self.stream_arns)

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


def listed(text: str) -> list[str]:
    """The values of a list that is separated by commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def is_zone_id(zone: str) -> bool:
    """True for the id of a zone (`euc1-az2`), which is the same in all accounts; false for its name."""
    return bool(re.fullmatch(_ZONE_ID, zone))


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
