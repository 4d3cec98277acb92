"""Index entries from before flags and fingerprints existed are still read."""

from __future__ import annotations

import json

from opx.adapters.embedded.segments import SegmentFacts, SegmentRow, entry_line, indexed_chunk
from opx.domain.results import IndexedChunk
from opx_aws import knowledge_base_objects, opensearch_schema
from opx_testing.entries import an_entry

FLAGGED = an_entry("disk full", flags=("suspected_instruction",), fingerprint="00ff00ff00ff00ff")
PLAIN = an_entry("disk full").indexed


def from_segment(line: str) -> IndexedChunk:
    indexed = FLAGGED.indexed
    row = SegmentRow(
        1, 0, 1, 1, indexed.scope_key, indexed.chunk.category, indexed.tier, indexed.language, "d", "", "", None
    )
    facts = SegmentFacts(indexed.key_id, indexed.trust, indexed.source_uri, indexed.last_updated)
    return indexed_chunk((indexed.entry_id, line), row, facts)


def test_embedded_entry_is_read_with_and_without_them() -> None:
    assert from_segment(entry_line(FLAGGED.indexed)) == FLAGGED.indexed
    assert from_segment(FLAGGED.indexed.chunk.to_json_line()) == PLAIN


def test_opensearch_entry_is_read_with_and_without_them() -> None:
    source = opensearch_schema.to_source(FLAGGED)
    assert opensearch_schema.from_source(source) == FLAGGED.indexed
    del source["flags"], source["fingerprint"]
    assert opensearch_schema.from_source(source) == PLAIN


def test_opensearch_mapping_has_a_field_for_all_that_is_stored() -> None:
    properties = opensearch_schema.index_body("model", 8)["mappings"]["properties"]
    assert set(opensearch_schema.to_source(FLAGGED)) == set(properties)
    assert {"flags", "fingerprint"} < set(opensearch_schema.SOURCE_FIELDS)


def test_copy_of_a_knowledge_base_is_read_with_and_without_them() -> None:
    data = knowledge_base_objects.sidecar(FLAGGED.indexed)
    assert data is not None
    attributes = json.loads(data)["metadataAttributes"]
    assert knowledge_base_objects.chunk_of(FLAGGED.indexed.chunk.text, attributes) == FLAGGED.indexed
    facts = json.loads(attributes["chunk"])
    del facts["flags"], facts["fingerprint"]
    attributes["chunk"] = json.dumps(facts)
    assert knowledge_base_objects.chunk_of(FLAGGED.indexed.chunk.text, attributes) == PLAIN
