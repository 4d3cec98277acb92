"""Builds the default embedding model beside the packages of this Python environment, for all of its users:
`python -m opx.adapters.embedded.minilm`."""

from __future__ import annotations

from opx.adapters.embedded.minilm.building import build, environment_folder, is_whole, read_recipe


def main() -> None:
    """Builds the model, unless it is there already."""
    recipe = read_recipe()
    folder = environment_folder(recipe)
    if not is_whole(folder, recipe):
        build(folder, recipe)


if __name__ == "__main__":
    main()
