"""What a commit's document says beside its relations: who made it, how each file changed, and which issues it names."""

from __future__ import annotations

import re

from opx.domain.documents import DocumentChunk
from opx.domain.graph import EdgeStatement, NodeStatement, Value
from opx.graph.extraction.material import Findings, Material
from opx.graph.extraction.references import made

RULE = "commit"

_PAGE = re.compile(
    r"https?://(?P<host>[\w.:-]+)/(?P<repository>[\w.-]+(?:/[\w.-]+)+?)/(?:-/)?commits?/[0-9a-f]{7,64}/?\Z"
)
"""Addresses of commits: of GitHub, and of GitLab and others that are built alike."""

_ISSUE = re.compile(
    r"(?P<verb>\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?[ \t]+)?"
    r"(?<![\w/.-])(?P<repository>[\w.-]+(?:/[\w.-]+)+)?(?P<mark>[#!])(?P<number>[1-9]\d{0,8})(?![\w-])",
    re.IGNORECASE,
)
"""The verbs are those that close an issue (GitHub Docs, "Linking a pull request to an issue"); `!` is a merge request of
GitLab ("GitLab-specific references")."""

_FILE = re.compile(
    r"^- `(?P<path>[^`\n]+)`(?: \(\+(?P<added>\d+), -(?P<removed>\d+)\))?(?:, (?P<kind>\w+))?$", re.MULTILINE
)


def author(material: Material, findings: Findings) -> None:
    """user -creates-> commit."""
    name = material.document.author
    key = made("user", name) if _is_commit(material) else ""
    if key:
        findings.add(NodeStatement(key, "user", {"name": name}), EdgeStatement(key, "creates", material.own, rule=RULE))


def changes(material: Material, chunk: DocumentChunk, findings: Findings) -> None:
    """commit -modifies-> file with how it changed, and commit -fixes-> or -references-> issues of its repository."""
    if not _is_commit(material):
        return
    for match in _FILE.finditer(chunk.content):
        key = made("file", match["path"])
        if key:
            where = (chunk.chunk_id,)
            findings.add(EdgeStatement(material.own, "modifies", key, where, rule=RULE, properties=_changed(match)))
    page = _PAGE.match(material.document.source_uri)
    if page:
        _issues(material, chunk, findings, page)


def _issues(material: Material, chunk: DocumentChunk, findings: Findings, page: re.Match[str]) -> None:
    forge = "github" if page["host"] == "github.com" else "gitlab"
    for match in _ISSUE.finditer(chunk.content):
        if match["mark"] == "!" and forge == "github":
            continue
        repository = match["repository"] or page["repository"]
        key = made(forge, f"{repository}{match['mark']}{match['number']}")
        if key:
            kind = "fixes" if match["verb"] else "references"
            findings.add(EdgeStatement(material.own, kind, key, (chunk.chunk_id,), rule=RULE, confidence=0.9))


def _changed(match: re.Match[str]) -> dict[str, Value]:
    found: dict[str, Value] = {"change": match["kind"] or "modify"}
    if match["added"]:
        found |= {"added": int(match["added"]), "removed": int(match["removed"])}
    return found


def _is_commit(material: Material) -> bool:
    return material.own.startswith("commit:")
