"""Operations on documents with masked secrets: the list for their owners, and encryption of their originals."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import dropwhile
from typing import Annotated

from opx.domain.documents import KnowledgeDocument, Remark, RemarkKind
from opx.domain.policy import Action
from opx.domain.record import Record, about, like
from opx.domain.requests import Request
from opx.errors import InvalidInputError, StoreUnavailableError
from opx.ingestion.events import ObjectEvent
from opx.ingestion.originals import OriginalState, has_masked_secrets
from opx.operations.context import Context
from opx.operations.paging import MAX_PAGE, After, Limit, Next, page_of, read_token
from opx.operations.registry import Function, operation
from opx.runtime.threads import Each
from opx.settings import ENCRYPT as ENCRYPT_ORIGINALS

CHANGE = "change the secrets where they are used: they were stored, and have to count as known to others"
REMOVE = "remove them from the source, and upload the document again: its earlier versions have the masked text alone"
ENCRYPT = "encrypt the original: `opx secret protect`, and OPX_SECRET_ORIGINALS=encrypt for documents to come"
ENCRYPT_THERE = (
    "encrypt the original: deploy with secret_originals=encrypt, then `opx secret protect`; until then let nobody but "
    "ingestion read its object"
)
ERASE = (
    "the object or an earlier version of it still has them: `opx secret protect` has ingestion encrypt and erase what it "
    "may; versions under a lock or a hold stay until that ends"
)
_PLACE = re.compile(
    r"(?P<place>[^:]{1,200}): (?P<kind>.*?)(?: \(fingerprint (?P<fingerprint>[0-9a-f]+)\))?\Z", re.DOTALL
)


class MaskedSecret(Record, frozen=True):
    """A masked secret. It has no part of the secret but the fingerprint, by which two of them differ."""

    place: Annotated[str, about("Such as `line 12`, or the name of a field.")]
    kind: str
    fingerprint: str = ""


class MaskedDocument(Record, frozen=True):
    """A document whose secrets are masked in the index and in answers, and the state of its original."""

    scope: Annotated[str, about("The key of the scope that owns it.")]
    owner: Annotated[str, about("Its owner, if it states one.")]
    document_id: str
    title: str
    source: str
    version: int
    kinds: Annotated[dict[str, int], about("Number of secrets by kind.")]
    secrets: Annotated[tuple[MaskedSecret, ...], about("The first ones; `more` counts the others.")]
    more: str = ""
    original: OriginalState = OriginalState.PLAIN
    remedies: tuple[str, ...] = ()


class MaskedDocuments(Record, frozen=True, omit_defaults=True):
    documents: tuple[MaskedDocument, ...]
    next: Next = ""


class ListMaskedSecrets(Request, frozen=True):
    limit: Limit = MAX_PAGE
    after: After = ""


@operation(http="GET /secrets", function=Function.MANAGE, action=Action.WRITE)
def list_masked_secrets(context: Context, request: ListMaskedSecrets) -> MaskedDocuments:
    """List the current documents of the caller's own scope that have masked secrets, by owner, with what to do.

    For the owner of the machine, those of every scope. Never quotes a secret. Raises `InvalidInputError` for an invalid
    `after`.
    """
    position = read_token(request.after, 4)
    documents, following = page_of(
        dropwhile(lambda document: _order(document) < position[:3], _found(context)),
        order=_order,
        name=lambda document: document.document_id,
        limit=request.limit,
        after=position,
    )
    states = _states(context, [_object_key(document) for document in documents])
    return MaskedDocuments(tuple(map(partial(_masked, context), documents, states)), following)


def _order(document: KnowledgeDocument) -> tuple[str, str, str]:
    return document.scope.key, document.owner, document.source


class ProtectOriginals(Request, frozen=True):
    pass


class ProtectedOriginals(Record, frozen=True, omit_defaults=True):
    encrypted: Annotated[int, about("Originals that were encrypted now.")]
    documents: Annotated[int, about("Documents with masked secrets.")]
    queued: Annotated[int, about("Originals that functions encrypt, which have the key.")] = 0
    problems: Annotated[tuple[str, ...], about("Originals that stay plain, with the reason.")] = ()


@operation(action=Action.ADMINISTER)
def protect_originals(context: Context, request: ProtectOriginals) -> ProtectedOriginals:  # noqa: ARG001
    """Encrypt the originals of all documents with masked secrets, also of those that were ingested before.

    Where functions ingest, they do it: events of the plain ones are queued. Raises `InvalidInputError` if the settings don't
    have them do it.
    """
    keys = [_object_key(document) for document in _found(context)]
    if context.system.work.in_process:
        return _protected(context, keys)
    if context.system.settings.secret_originals != ENCRYPT_ORIGINALS:
        raise InvalidInputError(
            "functions ingest here: deploy with the context secret_originals=encrypt, and set OPX_SECRET_ORIGINALS=encrypt"
        )
    plain = [key for key, state in zip(keys, _states(context, keys), strict=True) if state is OriginalState.PLAIN]
    for key in plain:
        context.system.queue.send(ObjectEvent(key, deleted=False, sequencer="").to_json())
    return ProtectedOriginals(0, len(keys), len(plain))


def _protected(context: Context, object_keys: Sequence[str]) -> ProtectedOriginals:
    encrypted, problems = 0, list[str]()
    for key in object_keys:
        try:
            encrypted += context.system.ingestion.originals.protect(key)
        except StoreUnavailableError as exc:
            problems.append(str(exc))
    return ProtectedOriginals(encrypted, len(object_keys), problems=tuple(problems))


def _states(context: Context, object_keys: Sequence[str]) -> list[OriginalState]:
    """States of originals; several at once where reading means waiting for a network."""
    return Each(context.system.storage.read_threads)(context.system.ingestion.originals.state, object_keys)


def _found(context: Context) -> Iterator[KnowledgeDocument]:
    """Current documents with masked secrets, by scope, owner and source."""
    categories = sorted(context.system.installation.knowledge.categories)
    for scope in _scopes(context):
        listed = context.system.corpus.catalog.visible([scope], categories=categories)
        found = [document for document in listed if has_masked_secrets(document.remarks)]
        yield from sorted(found, key=_order)


def _scopes(context: Context) -> list[str]:
    """Keys of the scopes whose documents the caller owns."""
    from opx.graph.naming import ScopeDirectory

    if not context.sees_every_scope(Action.READ_RECORDS):
        return [context.scope.key]
    directory = ScopeDirectory(context.system.corpus.clients, context.system.corpus.projects)
    return sorted(scope.key for scope in directory.all())


def _object_key(document: KnowledgeDocument) -> str:
    return document.scope.prefix + document.source


def _masked(context: Context, document: KnowledgeDocument, state: OriginalState) -> MaskedDocument:
    remarks = [one for one in document.remarks if one.kind is RemarkKind.MASKED_SECRET]
    secrets = tuple(found for one in remarks for found in [_secret(one)] if found)
    return like(
        MaskedDocument,
        document,
        scope=document.scope.key,
        kinds=dict(Counter(one.kind for one in secrets)),
        secrets=secrets,
        more=next((one.text for one in remarks if not _secret(one)), ""),
        original=state,
        remedies=(CHANGE, REMOVE, *_for_original(context, state)),
    )


def _for_original(context: Context, state: OriginalState) -> tuple[str, ...]:
    if state is not OriginalState.PLAIN:
        return ()
    if context.system.work.in_process:
        return (ENCRYPT,)
    return (ERASE if context.system.settings.secret_originals == ENCRYPT_ORIGINALS else ENCRYPT_THERE,)


def _secret(remark: Remark) -> MaskedSecret | None:
    """The secret of a remark; None for one that counts further ones."""
    match = _PLACE.match(remark.text)
    return MaskedSecret(match["place"], match["kind"], match["fingerprint"] or "") if match else None
