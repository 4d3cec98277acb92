"""Contract of `Format`. A test class inherits this one and provides the fixture `sample`."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from opx.domain.ids import normalise
from opx.domain.knowledge import Category, Tier
from opx.errors import UnparsableDocumentError
from opx.formats.registry import is_known, parse
from opx.formats.source import MAX_PIECE

CATEGORY = Category("notes", Tier.INTERNAL, 1.0, "permanent")
HUGE_LINE = 1_000_000
NO_UTF8 = b"\nGr\xf6\xdfe\n"

tried = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # a sample is not changed
        HealthCheck.differing_executors,  # a subclass for each format
        HealthCheck.too_slow,
    ],
)


@dataclass(frozen=True, slots=True)
class Sample:
    """A small document. `name` has an extension of the format `form`; `phrases` are in its text in this order."""

    form: str
    name: str
    data: bytes
    phrases: tuple[str, ...]
    category: Category = CATEGORY

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Parsed:
    form: str
    title: str | None
    metadata: Mapping[str, Any]
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(self.lines)


def read(data: bytes, sample: Sample) -> Parsed:
    """Reads these data as a whole, under the name of the sample. Raises `UnparsableDocumentError`."""
    source = parse(io.BytesIO(data), name=sample.name, category=sample.category)
    lines = tuple(source.lines)
    return Parsed(source.format, source.title, source.metadata, lines)


def read_or_refused(data: bytes, sample: Sample) -> Parsed | str:
    """The document, which is well formed, or the reason for its refusal, which names the file."""
    found: Parsed | str
    try:
        found = read(data, sample)
    except UnparsableDocumentError as exc:
        found = str(exc)
    if isinstance(found, str):
        assert found.startswith(f"{sample.name}: ")
        return found
    assert all(isinstance(key, str) for key in found.metadata)
    assert all("\n" not in line[:-1] and len(line) <= MAX_PIECE for line in found.lines)
    assert found.text == normalise(found.text)
    assert "\0" not in found.text
    found.text.encode()  # has no half of a surrogate pair
    return found


def damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Names of kinds of damage, and a file's data with each."""
    middle = len(data) // 2
    for quarter in range(1, 4):
        yield f"{quarter} of 4 quarters", data[: len(data) * quarter // 4]
    yield "without the last byte", data[:-1]
    yield "NUL", data[:middle] + b"\0" + data[middle:]
    yield "NULs alone", bytes(len(data))
    yield "no UTF-8", data + NO_UTF8
    yield "UTF-16 without a mark", data.decode("latin-1").encode("utf-16-le")
    yield "twice", data * 2
    yield "a huge line", b"x" * HUGE_LINE
    yield "a huge line behind it", data + b"\n" + b"x " * (HUGE_LINE // 2)
    yield "random bytes", random.Random(1).randbytes(4096)
    yield "random bytes behind its beginning", data[:16] + random.Random(2).randbytes(4096)


DAMAGE = tuple(name for name, _ in damaged(b""))


class FormatContract:
    """Fixture: `sample`. Parametrize it to try several files."""

    @pytest.fixture
    def sample(self) -> Sample:
        raise NotImplementedError

    def test_its_extension_is_known(self, sample: Sample) -> None:
        assert is_known(PurePosixPath(sample.name).suffix)

    def test_a_sample_gives_its_text(self, sample: Sample) -> None:
        found = read(sample.data, sample)
        assert found.form == sample.form
        at = 0
        for phrase in sample.phrases:
            at = found.text.index(phrase, at) + len(phrase)

    def test_a_sample_is_well_formed(self, sample: Sample) -> None:
        assert read_or_refused(sample.data, sample)

    def test_parsing_twice_gives_the_same(self, sample: Sample) -> None:
        first, again = (read_or_refused(sample.data, sample) for _ in range(2))
        assert first == again

    def test_an_empty_file_is_refused(self, sample: Sample) -> None:
        with pytest.raises(UnparsableDocumentError, match="empty"):
            read(b"", sample)

    @pytest.mark.parametrize("blank", [b"\n", b" \n \t\r\n", b"\n" * 100_000])
    def test_white_space_alone_is_refused(self, sample: Sample, blank: bytes) -> None:
        with pytest.raises(UnparsableDocumentError, match=sample.name):
            read(blank, sample)

    @pytest.mark.parametrize("damage", DAMAGE)
    def test_a_damaged_file_is_read_or_refused(self, sample: Sample, damage: str) -> None:
        assert read_or_refused(dict(damaged(sample.data))[damage], sample)

    @tried
    @given(data=st.binary(min_size=1, max_size=2000))
    def test_any_bytes_are_read_or_refused(self, sample: Sample, data: bytes) -> None:
        assert read_or_refused(data, sample)

    @tried
    @given(at=st.floats(0, 1), cut=st.integers(0, 40), put=st.binary(max_size=40))
    def test_a_sample_with_other_bytes_in_it_is_read_or_refused(
        self, sample: Sample, at: float, cut: int, put: bytes
    ) -> None:
        begin = round(at * len(sample.data))
        data = sample.data[:begin] + put + sample.data[begin + cut :]
        assert read_or_refused(data or b"\n", sample)
