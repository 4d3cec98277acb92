"""All extraction rules together: merged statements, limits, evidence, and whole lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import BinaryIO

import pytest

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, NodeStatement, Statements
from opx.domain.record import replace
from opx.errors import InvalidInputError
from opx.graph.extraction import material as gathering
from opx.graph.extraction.extractor import Extractor, extract
from opx.graph.extraction.material import MAX_LINE, MAX_PASSAGES, Findings, Material, Passages, has_words, whole_lines
from opx_testing.entries import a_piece
from tests.support.builders import a_document

DOCUMENT = a_document()


def no_object() -> AbstractContextManager[BinaryIO]:
    raise AssertionError("the object is not needed")


MATERIAL = Material(DOCUMENT, "runbook:page", {}, no_object)


def passages(*texts: str, overlap: int = 0) -> list[DocumentChunk]:
    """Chunks of these texts, each beginning with the last `overlap` characters of the one before."""
    found: list[DocumentChunk] = []
    at, before = 0, ""
    for number, text in enumerate(texts):
        content = before[len(before) - overlap :] + text
        start = at - (len(content) - len(text))
        found.append(
            a_piece(f"c{number}", "d", number, content, 1, "Page", (), start, start + len(content), "runbooks")
        )
        at, before = start + len(content), content
    return found


def statements_of(*texts: str, **rules: object) -> Statements:
    return extract(MATERIAL, lambda: iter(passages(*texts)), **rules)  # type: ignore[arg-type]


def test_document_without_passages_has_no_statements() -> None:
    assert statements_of() == Statements()


def test_passages_are_read_once_for_all_rules_that_read_one() -> None:
    readings = 0

    def counted() -> Iterator[DocumentChunk]:
        nonlocal readings
        readings += 1
        return iter(passages("service:a|CALLS|service:b\n"))

    extract(replace(MATERIAL, facts={"owner": ("team",)}), counted)
    assert readings == 1


def test_relation_that_two_rules_state_is_the_surest_rules_with_the_passages_of_both() -> None:
    def rule(_: Material, chunk: DocumentChunk, findings: Findings) -> None:
        sure = chunk.chunk_index == 1
        findings.add(
            EdgeStatement(
                "service:a",
                "calls",
                "service:b",
                (chunk.chunk_id,),
                at="2026" if not sure else "",
                rule="sure" if sure else "unsure",
                confidence=1.0 if sure else 0.5,
                properties={"x": sure, f"p{chunk.chunk_index}": 1},
            )
        )

    (edge,) = statements_of("one", "two", known=[rule]).edges
    assert (edge.rule, edge.confidence, edge.at, edge.chunk_ids) == ("sure", 1.0, "2026", ("c0", "c1"))
    assert edge.properties == {"x": True, "p0": 1, "p1": 1}


def test_node_of_many_passages_keeps_the_first() -> None:
    def rule(_: Material, chunk: DocumentChunk, findings: Findings) -> None:
        findings.add(NodeStatement("service:a", "service", {}, (chunk.chunk_id,)))

    node = statements_of(*["text"] * 50, known=[rule]).nodes[-1]
    assert node.chunk_ids == tuple(f"c{number}" for number in range(MAX_PASSAGES))


def test_rules_for_all_passages_read_them_after_the_others() -> None:
    def rule(_: Material, read: Passages, findings: Findings) -> None:
        findings.add(NodeStatement("service:last", "service", {}, tuple(chunk.chunk_id for chunk in read())))

    assert statements_of("a", "b", whole=[rule]).nodes[-1].chunk_ids == ("c0", "c1")


def test_passages_after_too_many_relations_are_not_searched_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_EDGES", 2)
    read: list[int] = []

    def rule(_: Material, chunk: DocumentChunk, findings: Findings) -> None:
        read.append(chunk.chunk_index)
        findings.add(EdgeStatement(f"service:{chunk.chunk_index}", "calls", "service:b", (chunk.chunk_id,)))

    found = statements_of("a", "b", "c", "d", "e", known=[rule])
    assert len(found.edges) == 2
    assert read == [0, 1, 2]
    assert "more than 2 relations" in found.remarks[0].text


def test_aliases_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "MAX_ALIASES", 3)
    material = replace(MATERIAL, own="service:a", facts={"aliases": tuple("bcdefg")})
    found = extract(material, lambda: iter(passages("text")))
    assert found.aliases == tuple((f"service:{name}", "service:a") for name in "bcd")
    assert "more than 3 aliases" in found.remarks[0].text


@pytest.mark.parametrize(
    ("text", "name", "there"),
    [
        ("ask checkout now", "checkout", True),
        ("checkout", "checkout", True),
        ("the checkout-edge and recheckout, checkout_2", "checkout", False),
        ("checkout-edge, then checkout.", "checkout", True),
        ("runs a.b/c (1)", "a.b/c", True),
    ],
)
def test_names_count_as_whole_words(text: str, name: str, *, there: bool) -> None:
    assert has_words(text, name) is there


# -- whole lines


def lines_of(*texts: str, overlap: int = 0) -> list[str]:
    return [chunk.content for chunk in whole_lines(passages(*texts, overlap=overlap))]


def test_line_belongs_to_the_passage_that_it_begins_in() -> None:
    assert lines_of("one\ntwo an", "d three\nfour", " five\nsix\n") == ["one\ntwo and three\n", "four five\n", "six\n"]


def test_overlap_of_passages_is_read_once() -> None:
    assert lines_of("one\ntwo\n", "three\nfour\n", overlap=4) == ["one\ntwo\n", "three\nfour\n"]
    assert lines_of("one\ntwo an", "d three\nfour\n", overlap=6) == ["one\ntwo and three\n", "four\n"]


def test_line_over_several_passages_is_whole_in_the_first() -> None:
    assert lines_of("a\nb", "c", "d", "e\nf\n") == ["a\nbcde\n", "", "", "f\n"]


def test_line_that_is_too_long_stays_in_parts() -> None:
    long = "x" * (MAX_LINE // 2)
    assert lines_of(f"a\n{long}", long, long, "y\nz\n") == [f"a\n{long}{long}", "", f"{long}y\n", "z\n"]


def test_passages_that_do_not_follow_each_other_stay_as_they_are() -> None:
    first, second = passages("one tw", "o\n")
    apart = replace(second, start=second.start + 5, end=second.end + 5)
    assert [chunk.content for chunk in whole_lines([first, apart])] == ["one tw", "o\n"]


def test_passage_of_whole_lines_is_the_same_passage() -> None:
    (chunk,) = passages("one\n")
    assert next(whole_lines([chunk])) is chunk
    assert not list(whole_lines([]))


def test_statement_with_an_invalid_reference_fails_the_extraction() -> None:
    def too_long(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
        findings.add(EdgeStatement(material.own, "mentions", f"service:{'x' * 600}", (chunk.chunk_id,)))

    with pytest.raises(InvalidInputError, match="not a reference"):
        Extractor(known=(too_long,))(DOCUMENT, lambda: iter(passages("text")), no_object)
