"""Errors that cross a boundary of the library. Each message states the problem and the remedy."""

from __future__ import annotations


class OpxError(Exception):
    """Base of all errors that are part of the library's interface."""


class MissingExtraError(OpxError):
    """A module is not installed; the message names the extra of the package that installs it."""

    def __init__(self, extra: str, module: str) -> None:
        super().__init__(
            f"the module {module} is not installed; it comes with the extra {extra}: pip install 'opx-knowledge[{extra}]'"
        )


class PluginError(OpxError):
    """A plugin can't be used; the message names its distribution and the reason."""


_DISTRIBUTIONS = {
    "opx-assurance": {"command": "seal repair reconcile export import", "part": "assurance"},
    "opx-bulk": {"command": "bulk", "rows": "bulk"},
    "opx-quality": {"command": "contradictions eval", "rows": "evaluations"},
    "opx-serve": {"command": "serve mcp console run", "section": "tokens"},
    "opx-streams": {
        "command": "stream webhook",
        "part": "streams webhooks",
        "rows": "streams webhooks",
        "section": "streams webhooks",
    },
    "opx-telemetry": {
        "command": "baseline ops",
        "part": "baselines",
        "rows": "baselines",
        "section": "telemetry baselines",
        "tool": "query_logs correlate_metrics analyze_traces get_baseline",
    },
    "opx-web": {"command": "research web", "part": "internet", "section": "internet", "tool": "research_topic"},
}
"""Distributions of the library that may not be installed, and the names of what they add."""


def distribution_of(kind: str, name: str) -> str:
    """The distribution of the library that has a command, part or tool, or reads rows or a section; "" for none."""
    return next((one for one, kinds in _DISTRIBUTIONS.items() if name in kinds.get(kind, "").split()), "")


class MissingDistributionError(PluginError):
    """A command, part or tool is not installed; the message names the distribution that has it."""

    def __init__(self, kind: str, name: str) -> None:
        distribution = distribution_of(kind, name)
        super().__init__(
            f"the {kind} {name} belongs to {distribution}, which is not installed: pip install {distribution}"
        )


class NotApplicableError(OpxError):
    """The system has nothing that could be checked; the message says why."""


class InvalidInputError(OpxError):
    """The caller's input is invalid; the message states what would be accepted."""


class InvalidScopeError(InvalidInputError):
    """A client, group or project identifier is malformed or contradictory."""


class InvalidReferenceError(InvalidInputError):
    """A reference to a node is not `namespace:value`, or the type of an edge has no name."""


class ArchiveError(InvalidInputError):
    """An archive can't be restored: it is not an archive, was damaged or changed, or has a newer format. Nothing was
    changed."""


class ClientRemovedError(InvalidScopeError):
    """The client was removed: its documents and queries are refused until it is added again."""


class AliasTakenError(InvalidInputError):
    """The name is already an alias of another node."""


class AliasLoopError(InvalidInputError):
    """The alias would resolve to itself through other aliases."""


class KnowledgeConfigError(InvalidInputError):
    """`knowledge.yaml` is invalid; the message starts with file and line."""


class UnknownCategoryError(InvalidInputError):
    """A category that `knowledge.yaml` does not list."""


class UnknownProjectError(InvalidInputError):
    """No project has this name; the message lists the known ones."""


class NotFoundError(OpxError):
    """Nothing with this name is visible to the caller. `kind` is the kind of thing."""

    kind = "thing"


class EntryNotFoundError(NotFoundError):
    """No entry with this id was captured in the caller's scope."""

    kind = "entry"


class MergeNotFoundError(NotFoundError):
    """No merge with this id is on record for the scope."""

    kind = "merge"


class ReceiptNotFoundError(NotFoundError):
    """No answer with this receipt is on record in the caller's scope."""

    kind = "receipt"


class EvaluationNotFoundError(NotFoundError):
    """No evaluation run, or no own question, has this id."""

    kind = "evaluation"


class NotOrchestratorError(OpxError):
    """Only orchestrators may query patterns; the message states how to become one."""


class PatternNotFoundError(NotFoundError):
    """No pattern with this id is visible to the reader."""

    kind = "pattern"


class HeldError(OpxError):
    """A legal hold forbids the removal; the message names it."""


class HoldNotFoundError(NotFoundError):
    """No hold with this id is in force."""

    kind = "hold"


class PruneStoppedError(OpxError):
    """Pruning stopped without removing anything, as it would have removed far more than usual."""


class DocumentNotFoundError(NotFoundError):
    """No document with this id is visible to the reader."""

    kind = "document"


class NodeNotFoundError(NotFoundError):
    """No document that the reader may see mentions this node."""

    kind = "node"


class TooLargeError(OpxError):
    """A request or its reply exceeds the size limit."""


class ForbiddenError(OpxError):
    """The caller lacks the permission, or is not identified."""


class AccessDeniedError(OpxError):
    """The caller's credentials are missing, have expired, or don't allow the request."""


class UnparsableDocumentError(OpxError):
    """No parser accepts these bytes; retrying with the same bytes is pointless."""


class ObjectNotFoundError(NotFoundError):
    """The corpus store holds no object under this key."""

    kind = "object"


class SealNotFoundError(NotFoundError):
    """Nothing was sealed yet."""

    kind = "seal"


class AlteredSealError(OpxError):
    """A seal was altered after it was made, or is another one than expected."""


class UntrustedSealError(OpxError):
    """A seal is not signed by the key that is known, but by another one, or by none."""


class ConditionFailedError(OpxError):
    """A conditional write found the item in another state."""


class DocumentChangedError(ConditionFailedError):
    """A document was changed since the text was read that was to replace it."""


class StoreUnavailableError(OpxError):
    """A store or service didn't answer, or refused temporarily; retrying later may help. `reason` names the cause without a
    path, "" where only the message does."""

    def __init__(self, message: str = "", reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class DamagedStoreError(StoreUnavailableError):
    """A stored file is damaged: it is truncated, altered or unreadable. The message names the repair."""


class DamagedRowError(StoreUnavailableError):
    """A stored row lacks an attribute that every row of its kind has. The message names table, key and attribute."""


class UnwritableStoreError(StoreUnavailableError):
    """A store's disk is full or read-only: it can still be read."""

    def __init__(self, message: str, reason: str = "the disk can't be written to") -> None:
        super().__init__(message, reason)


class IncompatibleHomeError(StoreUnavailableError):
    """The home folder was written by a newer program, whose data this one would damage; the message names both."""


class IndexUnavailableError(StoreUnavailableError):
    """The search index can't be reached or refused the request as a whole."""


class IndexWakingError(IndexUnavailableError):
    """The search index did not answer in the time that the caller has: it is waking up, or overloaded. `retry_after`: seconds
    after which to repeat the call."""

    def __init__(self, message: str, retry_after: float = 20.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class EditionChangedError(StoreUnavailableError):
    """Another edition of the index answers than when the work began; a retry uses that one."""


class TelemetryUnavailableError(StoreUnavailableError):
    """Logs, metrics or traces could not be read; the message states why, and nothing of their content."""


class EmbeddingError(StoreUnavailableError):
    """The embedding model failed or is throttled."""


class ThrottledError(EmbeddingError):
    """The quota of the embedding model is used up for now: nothing is wrong with the texts. `retry_after`: seconds until
    there is room for more."""

    def __init__(self, message: str, retry_after: float = 5.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class ModelError(StoreUnavailableError):
    """A language model or a reranker failed, took too long, or returned an unusable answer."""


class ReindexBusyError(OpxError):
    """Another process, or function, is building a new index; only one may."""


class BulkBusyError(OpxError):
    """Another bulk job changes the same stores; the message names it."""


class BulkFailedError(OpxError):
    """A stage of a bulk job failed for good; the message says which. The job can be continued."""


class BulkJobNotFoundError(NotFoundError):
    """There is no bulk job with this id."""

    kind = "bulk job"


class BulkCancelledError(OpxError):
    """The bulk job ended, or was cancelled, while one of its stages was running."""


class IncompatibleIndexError(OpxError):
    """The index was built with another model, dimension or analyzer; its results would be meaningless."""


class SourceUnavailableError(StoreUnavailableError):
    """A source of documents didn't answer, or refused temporarily. `retry_after`: seconds to wait, if the source stated
    them. `body` is that of the HTTP reply."""

    def __init__(self, message: str, retry_after: float = 0.0, body: bytes = b"") -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.body = body


class SourceRefusedError(OpxError):
    """A source refused permanently: credentials are missing or wrong, or the address doesn't exist.

    `status` and `body` are those of the HTTP reply, 0 and empty for none.
    """

    def __init__(self, message: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class SourceShapeError(OpxError):
    """A source's reply doesn't have the expected shape; nothing of it is ingested."""


class SourceBusyError(OpxError):
    """The source is already being pulled."""


class ForbiddenAddressError(InvalidInputError):
    """An address that documents may not be fetched from: private, loopback, link-local, or of another scheme."""


class SecretNotFoundError(InvalidInputError):
    """A secret that the configuration names doesn't exist."""
