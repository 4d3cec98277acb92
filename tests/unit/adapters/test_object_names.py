"""Keys become paths that every file system keeps apart, and paths become keys again."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from opx.adapters.embedded.object_store import MAX_NAME_BYTES, folder_path, key_of, path_of
from opx.adapters.limits import is_object_key

CONFUSING = st.text(alphabet="aAäÄa\u0308.%~+/ :2E0f", min_size=1, max_size=12)
ANY_KEY = (CONFUSING | st.text(min_size=1, max_size=300)).filter(is_object_key)


@given(ANY_KEY)
@example("x" * 1024)
@example("é" * 512)
def test_path_gives_the_key_again(key: str) -> None:
    assert key_of(path_of(key)) == key


@given(ANY_KEY)
@example("x" * 1024)
@example("Ü" * 512)
@example("\U0001f525" * 256)
@example("%" * 1024)
def test_names_fit_and_are_never_hidden_or_special(key: str) -> None:
    for name in path_of(key):
        assert 0 < len(name.encode()) <= MAX_NAME_BYTES
        assert not name.startswith(".")
        assert not set(name) & set('/\\:*?"<>|\x00')


@given(ANY_KEY, ANY_KEY)
def test_different_keys_have_paths_that_differ_beyond_case_and_form(one: str, other: str) -> None:
    assume(one != other)
    assert [_folded(name) for name in path_of(one)] != [_folded(name) for name in path_of(other)]


@given(ANY_KEY, ANY_KEY)
def test_no_file_is_the_folder_of_another(one: str, other: str) -> None:
    file, folders = path_of(one), path_of(other)[:-1]
    assert [_folded(name) for name in file] != [_folded(name) for name in folders[: len(file)]]


@given(ANY_KEY, ANY_KEY)
def test_key_is_in_the_folder_of_its_prefix(folder: str, name: str) -> None:
    assume(is_object_key(f"{folder}/{name}"))
    start = folder_path(folder.split("/"))
    assert path_of(f"{folder}/{name}")[: len(start)] == start


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@pytest.mark.parametrize("key", ["documents/runbooks/disk-full.md", "chunks/0a1b.jsonl", "a b/c_d.tar.gz"])
def test_ordinary_key_is_its_own_path(key: str) -> None:
    assert "/".join(path_of(key)) == key


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a/b", "a/b%"),
        ("v1.2/notes.md", "v1.2%/notes.md"),
        (".meta/a.md", "%2Emeta/a.md"),
        ("50%~.md", "50%25%7E.md"),
        ("trailing.", "trailing%2E%"),
    ],
)
def test_unusual_key_stays_readable(key: str, path: str) -> None:
    assert "/".join(path_of(key)) == path


@pytest.mark.parametrize("path", ["README", "Readme.md", "a.b/c.md", ".hidden.md", "%zz.md", "a%2F.md", "\udcff.md"])
def test_path_that_no_key_has_is_not_a_key(path: str) -> None:
    assert key_of(tuple(path.split("/"))) is None
