"""Settings of functions that ingest documents, or have to know how they were ingested."""

from __future__ import annotations

from infra.constructs import answering_models, managed_search, secret_originals
from infra.constructs.use_case_function import SearchEngine, common_settings
from infra.names import Names


def deciding_settings(names: Names, collection: SearchEngine) -> dict[str, str]:
    """Settings of functions that know whether a document is ingested as it would be now."""
    return {
        **common_settings(names, collection),
        "corpus_bucket": names.corpus_bucket,
        "ingest_queue_url": names.queue_url("ingest"),
        **managed_search.copying_settings(names),
        **answering_models.writing_settings(names),
    }


def ingesting_settings(names: Names, collection: SearchEngine) -> dict[str, str]:
    """Settings of functions that read and ingest documents."""
    return {
        **deciding_settings(names, collection),
        "ocr": names.deployment.ocr,
        "vision_model": names.deployment.vision_model,
        **secret_originals.encrypting_settings(names),
    }
