"""A home with objects that the catalog doesn't know, and segments of its objects."""

from __future__ import annotations

from pathlib import Path

from opx.settings import Settings
from opx.system import bootstrap
from opx_assurance.consistency.comparing import SegmentKind, StoreSegment


def unknown_objects(folder: Path) -> Settings:
    """A home with twelve objects and no documents."""
    settings = Settings(home=str(folder / "home"))
    with bootstrap(settings) as system:
        for number in range(12):
            system.storage.objects.put(f"documents/runbooks/{number:02}.md", b"# Unknown\n\nText.\n")
    return settings


def objects(*bounds: str) -> list[StoreSegment]:
    """Segments of objects, cut at these keys."""
    pairs = zip(["", *bounds], [*bounds, ""], strict=True)
    return [StoreSegment(SegmentKind.OBJECTS, low, high) for low, high in pairs]
