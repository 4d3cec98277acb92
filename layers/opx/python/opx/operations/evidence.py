"""The operation by which agents leave evidence of their work."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, structs

from opx.domain.evidence import (
    CONCLUSION,
    OBSERVATIONS,
    SERVICES,
    SOURCES,
    TAGS,
    Addresses,
    Evidence,
    Services,
    Tags,
    Texts,
)
from opx.domain.record import Record
from opx.domain.requests import Request
from opx.operations.context import Context
from opx.operations.registry import Access, Function, operation


class PutEvidence(Evidence, Request, frozen=True, kw_only=True, rename=None):
    """Evidence as it is sent: the fields are those of the record, and lists are lists."""

    conclusion: Annotated[Texts, CONCLUSION] = ()
    observations: Annotated[Texts, OBSERVATIONS] = ()
    services: Annotated[Services, SERVICES] = ()
    tags: Annotated[Tags, TAGS] = ()
    sources: Annotated[Addresses, SOURCES] = ()

    @classmethod
    def of(cls, evidence: Evidence) -> PutEvidence:
        """The request that sends it."""
        return cls(**structs.asdict(evidence))


class StoredEvidence(Record, frozen=True):
    object_key: Annotated[str, Meta(description="The object that waits to be ingested.")]


@operation(http="POST /evidence", function=Function.MANAGE, status=202, access=Access.WRITER)
def put_evidence(context: Context, request: PutEvidence) -> StoredEvidence:
    """Take in what an agent found out; rules say as what. It is worked on afterwards.

    Raises `InvalidInputError` that names the field which the category of the evidence needs.
    """
    from opx.ingestion import evidence

    system = context.system
    manager = system.ingestion.manager_of(context.scope)
    return StoredEvidence(evidence.put_evidence(manager, system.store, system.ingestion.evidence_rules, request))
