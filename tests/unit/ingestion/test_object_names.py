"""Names of pulled documents' objects, and the keys that they are read back to."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.sources import SourceDocument
from opx.ingestion.object_names import object_name, pulled_key, pulled_name, with_extension

CATEGORY = "vendor/linux"
CONTENTS = st.sampled_from(["text", b"bytes", {"a": 1}])
KEYS = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60),
    st.from_regex(r"[a-zA-Z%~./ -]{1,12}(~|\.md|\.json|\.pdf|\.html|\.txt){0,3}", fullmatch=True),
)


def stored(key: str, content: str | bytes | Mapping[str, int]) -> str:
    """The object's key, as the puller and the writer make it."""
    name = pulled_name("src", SourceDocument(key, content))
    return f"documents/{CATEGORY}/{with_extension(name, content)}"


@pytest.mark.parametrize(
    ("key", "content", "name"),
    [
        ("CVE-2024-23113", "text", "CVE-2024-23113~.md"),
        ("guide", {}, "guide~.json"),
        ("guide.md", "text", "guide.md"),
        ("a.pdf", b"", "a.pdf"),
        ("a.pdf", "text", "a.pdf~.md"),
        ("v1.2", "text", "v1.2~.md"),
        ("docs/a b%2F.md", "text", "docs/a b%252F.md"),
        ("x.org/?a=1&b", "text", "x.org/%3Fa=1%26b~.md"),
    ],
)
def test_key_is_read_back_from_the_name(key: str, content: str | bytes | dict[str, int], name: str) -> None:
    assert stored(key, content) == f"documents/{CATEGORY}/sources/src/{name}"
    assert pulled_key(f"documents/{CATEGORY}/sources/src/{name}", CATEGORY) == key


@given(KEYS, CONTENTS)
def test_every_key_is_read_back_unless_it_was_hashed(key: str, content: str | bytes | dict[str, int]) -> None:
    found = pulled_key(stored(key, content), CATEGORY)
    assert found == key or object_name(key).startswith(found[:32])


@given(st.lists(st.tuples(KEYS, CONTENTS), min_size=2, max_size=2, unique_by=lambda one: one[0]))
def test_documents_of_different_keys_are_different_objects(
    documents: list[tuple[str, str | bytes | dict[str, int]]],
) -> None:
    (one, first), (other, second) = documents
    assert stored(one, first) != stored(other, second)


@pytest.mark.parametrize("name", ["a.md", "webhooks/x/a.md", "sources/a.md", "other/sources/x/IT-25~.md"])
def test_objects_that_no_pull_made_have_no_key(name: str) -> None:
    assert pulled_key(f"documents/{CATEGORY}/{name}", CATEGORY) == ""


def test_same_key_in_another_category_is_no_pull() -> None:
    assert pulled_key("documents/web/blogs/sources/x/IT-25~.md", CATEGORY) == ""
