"""A hook of MkDocs: the repository's pages beside `docs`, and the files that pages link to outside of it, become part of
the site, so that a strict build finds every dead link."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
PAGES = {"README.md": "overview.md", "CONTRIBUTING.md": "contributing.md", ".github/SECURITY.md": "security-policy.md"}
"""Pages of the repository beside `docs`, with their names in the site."""

LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
FENCE = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages and linked files from outside of `docs`."""
    for source, name in PAGES.items():
        if (ROOT / source).is_file():
            files.append(File.generated(config, name, content=(ROOT / source).read_text(encoding="utf-8")))
    for page in list(files.documentation_pages()):
        for target in _outside(page.src_uri, page.content_string):
            name = f"source/{target}.txt"
            if (ROOT / target).is_file() and not files.get_file_from_path(name):
                files.append(File.generated(config, name, content=(ROOT / target).read_bytes()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001 - MkDocs names it
    """Points links to what is outside of `docs` to its copy in the site; to folders of the repository, to nothing."""
    own = page.file.src_uri
    parts = FENCE.split(markdown)
    return "".join(part if at % 2 else LINK.sub(lambda m: _link(m, own, files), part) for at, part in enumerate(parts))


def _link(match: re.Match[str], own: str, files: Files) -> str:
    target, anchor = match[1], match[2] or ""
    path = _in_repository(own, target)
    if path is None or ":" in target:
        return match[0]
    if path.startswith("docs/") and (ROOT / path).is_dir():
        name = next((str(file.src_uri) for file in files if file.src_uri.startswith(path[5:] + "/")), target)
    elif path.startswith("docs/"):
        name = path[5:]
    elif (ROOT / path).is_dir():
        return f"{posixpath.relpath('README.md', posixpath.dirname(own) or '.')}"
    else:
        name = PAGES.get(path, f"source/{path}.txt")
    return posixpath.relpath(name, posixpath.dirname(own) or ".") + anchor


def _outside(own: str, markdown: str) -> set[str]:
    """Paths in the repository that a page links to, other than pages and those in `docs`."""
    found = {_in_repository(own, match[1]) for match in LINK.finditer(markdown) if ":" not in match[1]}
    return {path for path in found if path and not path.startswith("docs/") and path not in PAGES}


def _in_repository(own: str, target: str) -> str | None:
    """The path in the repository of a link's target; None if it leads out of it."""
    source = next((path for path, name in PAGES.items() if name == own), f"docs/{own}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    return None if path.startswith("../") else path
