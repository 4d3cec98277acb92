"""Pictures as documents, with and without models to describe them."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from opx.errors import UnparsableDocumentError
from opx.formats import pictures
from opx.formats.pictures import MAX_SIDE, encoded, portable
from opx.ports.models import ParsingTools
from tests.support.binary_files import FakeDescriber, FakeOcr, a_picture, in_this_process, read, refused

pytestmark = pytest.mark.usefixtures(in_this_process.__name__)


class Refusing:
    """An `ImageDescriber` that refuses every picture."""

    def describe(self, image: bytes, *, media_type: str, hint: str = "") -> str:
        raise UnparsableDocumentError("the model refused it")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_picture_is_what_it_shows_and_the_text_in_it(kind: str) -> None:
    tools = ParsingTools(FakeOcr("502 Bad Gateway"), FakeDescriber("an error page"))
    name = f"screen.{kind.lower()}"
    assert read(a_picture("x", kind=kind), name, tools).text == (
        "an error page\n\nText in the picture:\n\n502 Bad Gateway\n"
    )


def test_a_picture_that_nobody_can_look_at_can_be_found_by_its_name() -> None:
    found = read(a_picture("x"), "network-plan.png")
    assert found.text == "Picture: network plan\n"
    assert found.undescribed[0].startswith("a picture is not described")


def test_a_picture_that_the_model_refuses_keeps_its_name_and_is_remarked_on() -> None:
    found = read(a_picture("x"), "plan.png", ParsingTools(describer=Refusing()))
    assert found.text == "Picture: plan\n"
    assert found.undescribed == ["plan.png is not described: the model refused it"]


def test_the_name_is_a_hint() -> None:
    describer = FakeDescriber()
    read(a_picture("x"), "plan.png", ParsingTools(describer=describer))
    assert describer.hints == ["plan.png"]


def test_broken_picture_is_refused() -> None:
    assert "no picture of a known kind" in refused(b"\x89PNG\r\n\x1a\nbroken", "a.png")


def test_only_the_first_of_several_pictures_is_read() -> None:
    frames = [Image.new("L", (60, 60), shade) for shade in (0, 100, 200)]
    target = io.BytesIO()
    frames[0].save(target, "GIF", save_all=True, append_images=frames[1:])
    assert read(target.getvalue(), "a.gif").unread == ["only the first of its 3 pictures is read"]


def test_pictures_are_made_small_enough_for_every_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "MAX_BYTES", 150_000)
    made = encoded(Image.effect_noise((500, 500), 200).convert("RGB"))
    assert made.media_type == "image/jpeg"
    assert len(made.data) <= 150_000
    wide = encoded(Image.new("L", (MAX_SIDE * 2, 100)))
    assert Image.open(io.BytesIO(wide.data)).size == (MAX_SIDE, 50)


def test_icons_are_passed_over() -> None:
    assert portable(a_picture(size=(16, 16))) is None
