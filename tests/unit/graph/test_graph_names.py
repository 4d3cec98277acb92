"""Normalised references and edge types."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from opx.errors import InvalidReferenceError
from opx.graph.names import MAX_BYTES, MAX_TEXT, canonical_form, edge_type, normalised, reference

ANY_TEXT = st.text(max_size=60) | st.text(
    st.sampled_from("aA:_- |<>[]\"`'.,;()\t\n\u200d\u0301ß\ud800\u037eＡ｜"), max_size=30
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User:John  Smith", "user:john smith"),
        ("  service : Checkout ", "service:checkout"),
        ("jira:TASK-123).", "jira:task-123"),
        ("Alert Event:Disk Full", "alert_event:disk full"),
        ("alert-event:x", "alert_event:x"),
        ("service:`checkout`,", "service:checkout"),
        ("service:a|b->c", "service:a b- c"),
        ("service:a\r\nb\x00c", "service:a b c"),
        ("service:｜ＡＢ｜", "service:ab"),
        ("service:ch\u00ade\u200bckout", "service:checkout"),
        ("user:STRASSE", normalised("user:straße")),
        ("user:Jose\u0301", "user:josé"),
        ("method:getUser()", "method:getuser()"),
        ("file:.gitignore", "file:.gitignore"),
        ("class:std::vector", "class:std::vector"),
        ("url:https://a.example/b?c=1#d", "url:https://a.example/b?c=1#d"),
        ("user:half\ud800", "user:half"),
    ],
)
def test_a_reference_is_normalised(text: str, expected: str) -> None:
    assert normalised(text) == expected


@pytest.mark.parametrize(
    "text", ["", "checkout", ":", ":x", "x:", "service:...", "service: |>", "10:30", "a/b:c", "->:x", "|:x"]
)
def test_an_invalid_reference_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidReferenceError, match="service:checkout"):
        normalised(text)


def test_a_string_of_any_length_is_refused_quickly_and_quoted_in_part() -> None:
    with pytest.raises(InvalidReferenceError, match="too long") as caught:
        normalised("service:" + "x" * MAX_TEXT)
    assert len(str(caught.value)) < 200


@given(ANY_TEXT)
@example("ａ：｜")
@example("a:\u0345\u0301")
@example("a:'(.)'")
@example("a:<\u0338")
def test_normalising_twice_changes_nothing_and_leaves_no_structure(text: str) -> None:
    try:
        key = normalised("n:" + text)
    except InvalidReferenceError:
        return
    assert normalised(key) == key
    assert not set(key) & set('|<>[]"`')
    assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs") for character in key)
    assert "  " not in key
    assert key == key.strip()


@given(st.text(min_size=300, max_size=600))
def test_a_reference_is_never_longer_than_a_key_may_be(text: str) -> None:
    try:
        key = normalised("file:" + text)
    except InvalidReferenceError:
        return
    assert len(key.encode()) <= MAX_BYTES
    assert normalised(key) == key


def test_long_values_with_the_same_beginning_stay_distinct() -> None:
    one, other = (normalised("file:" + "ü" * 500 + end) for end in ("a", "b"))
    assert one != other


def test_a_reference_is_made_of_a_namespace_and_a_value() -> None:
    assert reference("File", "C:\\Temp\\x.TXT") == "file:c:\\temp\\x.txt"
    with pytest.raises(InvalidReferenceError, match="colon"):
        reference("a:b", "c")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("order:order_530798957", "order:530798957"),
        ("order:order-order 5", "order:5"),
        ("order:order_5f3a9c-11", "order:5f3a9c-11"),
        ("order:530798957", "order:530798957"),
        ("order:order_", "order:order_"),
        ("order:orders_5", "order:orders_5"),
        ("service:service-registry", "service:service-registry"),
        ("user:user user x", "user:user user x"),
        ("file:file_1.txt", "file:file_1.txt"),
    ],
)
def test_an_identifier_need_not_repeat_its_namespace(key: str, expected: str) -> None:
    assert canonical_form(key) == expected


@given(st.text("order_- 5fx", max_size=20).filter(str.strip))
def test_the_canonical_form_is_a_reference_and_its_own_canonical_form(value: str) -> None:
    key = canonical_form(normalised("order:" + value))
    assert canonical_form(key) == key == normalised(key)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Depends On", "depends_on"),
        ("dependsOn", "depends_on"),
        ("FIRES_ON", "fires_on"),
        ("-[calls]->", "calls"),
        ("  is--a ", "is_a"),
    ],
)
def test_edge_types_are_words_with_underscores(text: str, expected: str) -> None:
    assert edge_type(text) == expected


@pytest.mark.parametrize("text", ["", " ", "->", "_", "hängt ab von", "x" * 61])
def test_an_invalid_edge_type_is_refused(text: str) -> None:
    with pytest.raises(InvalidReferenceError, match="depends_on"):
        edge_type(text)


@given(ANY_TEXT)
def test_normalising_an_edge_type_is_idempotent(text: str) -> None:
    try:
        name = edge_type(text)
    except InvalidReferenceError:
        return
    assert edge_type(name) == name


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("product:product_lego", "product:lego"),
        ("product:product_lego_technic", "product:lego_technic"),
        ("product:product", "product:product"),
        ("product:product_", "product:product_"),
        ("product:productivity", "product:productivity"),
        ("service:service_registry", "service:service_registry"),
    ],
)
def test_a_product_is_named_without_its_namespace(key: str, expected: str) -> None:
    assert canonical_form(key) == expected
