"""Every error that crosses a boundary of the library. Each message says what is wrong and what to do."""

from __future__ import annotations


class OpxError(Exception):
    """Base of all errors that are part of the library's interface."""


class InvalidInputError(OpxError):
    """The caller's input can't be used as it is; the message says what would be accepted."""


class InvalidScopeError(InvalidInputError):
    """A client, group or project identifier is malformed or contradictory."""


class InvalidReferenceError(InvalidInputError):
    """A reference to a thing is not `namespace:value`, or a type of a relation has no name."""


class ArchiveError(InvalidInputError):
    """An archive can't be taken in: it is none, was damaged or changed, or is of a newer format. Nothing was changed."""


class ClientRemovedError(InvalidScopeError):
    """The client was removed: nothing is taken in or answered for it until it is added again."""


class AliasTakenError(InvalidInputError):
    """The name is an alias of something else already."""


class AliasLoopError(InvalidInputError):
    """The alias would make a name stand for itself, by way of others."""


class KnowledgeConfigError(InvalidInputError):
    """`knowledge.yaml` is wrong; the message starts with file and line."""


class UnknownCategoryError(InvalidInputError):
    """A category that `knowledge.yaml` does not list."""


class UnknownProjectError(InvalidInputError):
    """Nothing is known of a project of this name; the message names those that are known."""


class NotFoundError(OpxError):
    """Nothing of this name is there that the caller may see. `kind` says of which kind it would be."""

    kind = "thing"


class EntryNotFoundError(NotFoundError):
    """Nothing of this id was captured in the scope of who asks."""

    kind = "entry"


class MergeNotFoundError(NotFoundError):
    """No merge with this id is on record for the scope."""

    kind = "merge"


class ReceiptNotFoundError(NotFoundError):
    """No answer with this receipt is on record in the scope of who asks."""

    kind = "receipt"


class NotOrchestratorError(OpxError):
    """Only orchestrators may ask for what was learned; the message says how to become one."""


class PatternNotFoundError(NotFoundError):
    """No pattern with this id is visible to the reader."""

    kind = "pattern"


class HeldError(OpxError):
    """A legal hold keeps what was to be removed; the message names it."""


class HoldNotFoundError(NotFoundError):
    """No hold with this id is in force."""

    kind = "hold"


class PruneStoppedError(OpxError):
    """Much more than usual would be removed at once, so that nothing was."""


class DocumentNotFoundError(NotFoundError):
    """No document with this id is visible to the reader."""

    kind = "document"


class NodeNotFoundError(NotFoundError):
    """No document that the reader may see says anything of this thing."""

    kind = "node"


class TooLargeError(OpxError):
    """A request or its reply is larger than what can be sent."""


class ForbiddenError(OpxError):
    """The caller may not do this, or nobody said who the caller is."""


class AccessDeniedError(OpxError):
    """The caller's credentials are missing, have expired, or don't allow what was asked."""


class UnparsableDocumentError(OpxError):
    """The bytes are not a document that any parser takes; trying again with the same bytes is pointless."""


class ObjectNotFoundError(NotFoundError):
    """The corpus store holds no object under this key."""

    kind = "object"


class ConditionFailedError(OpxError):
    """A conditional write found the item in another state."""


class StoreUnavailableError(OpxError):
    """A store or service didn't answer, or refused for now; trying again later may help."""


class IndexUnavailableError(StoreUnavailableError):
    """The search index can't be reached or refused the request as a whole."""


class EditionChangedError(StoreUnavailableError):
    """Another index answers than when the work began; done again, it is done for that one."""


class TelemetryUnavailableError(StoreUnavailableError):
    """Logs, metrics or traces could not be read; the message says why, and nothing of what is in them."""


class EmbeddingError(StoreUnavailableError):
    """The embedding model failed or is throttled."""


class ModelError(StoreUnavailableError):
    """A language model or a reranker failed, took too long, or answered what can't be used."""


class ReindexBusyError(OpxError):
    """Another process, or function, is making a new index, and only one does."""


class IncompatibleIndexError(OpxError):
    """The index was built with another model, dimension or analyzer; reading it would give nonsense."""


class SourceUnavailableError(StoreUnavailableError):
    """A source of documents didn't answer, or refused for now. `retry_after`: seconds to wait, if it said so."""

    def __init__(self, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class SourceRefusedError(OpxError):
    """A source said no, and will again: credentials that are missing or wrong, or an address that isn't there.

    `status` is that of the HTTP reply, 0 for none.
    """

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class SourceShapeError(OpxError):
    """What a source sent is not of the shape that it used to have; nothing of it is taken in."""


class SourceBusyError(OpxError):
    """The source is being pulled already."""


class ForbiddenAddressError(InvalidInputError):
    """An address that documents may not be fetched from: private, loopback, link-local, or of another scheme."""


class SecretNotFoundError(InvalidInputError):
    """A secret that the configuration names doesn't exist."""
