"""What a class or function is called by those who look for it: its declaration without its body."""

from __future__ import annotations

import re

from tree_sitter import Node

_ANNOTATIONS = ("annotation", "marker_annotation", "attribute_list", "attribute_item", "decorator", "attribute")
_BODIES = (
    "class_body",
    "function_body",
    "enum_class_body",
    "enum_body",
    "block",
    "declaration_list",
    "field_declaration_list",
    "enumerator_list",
    "script_block",
    "body_statement",
)
_PYTHON_START = re.compile(r"(?:async )?def ")
_RECEIVER = re.compile(r"\((?:self|cls)(?:, |(?=\)))")


def body_of(node: Node) -> Node | None:
    """The part between the braces; None if there is none. PowerShell's classes have none, but braces."""
    if node.type == "class_statement":
        return node
    for part in (node, *_values(node)):
        body = part.child_by_field_name("body")
        if body is None:
            body = next((child for child in part.named_children if child.type in _BODIES), None)
        if body is not None:
            return body
    return None


def signature(node: Node, code: bytes, language: str) -> str:
    """The declaration in one line, without annotations: `class UserService(Base)`, `login(user: str) -> Session`."""
    body = body_of(node)
    end = body.start_byte if body is not None and body != node else node.end_byte
    parts: list[bytes] = []
    at = node.start_byte
    for left_out in _annotations(node):
        if left_out.start_byte >= end:
            break
        parts.append(code[at : left_out.start_byte])
        at = left_out.end_byte
    parts.append(code[at:end])
    text = b" ".join(parts).strip().decode(errors="replace")
    if end == node.end_byte:
        text = text.partition("\n")[0]
    text = " ".join(text.split()).rstrip("{:=; ").removesuffix("=>").rstrip()
    if language == "python":
        text = _RECEIVER.sub("(", _PYTHON_START.sub("", text), count=1)
    return text.replace('"', "") if language == "hcl" else text


def _annotations(node: Node) -> list[Node]:
    """And comments, in the order of the text; they may stand among the modifiers."""
    children = [*node.children]
    for child in node.children:
        if child.type == "modifiers":
            children.extend(child.children)
    left_out = (child for child in children if child.type in _ANNOTATIONS or "comment" in child.type)
    return sorted(left_out, key=lambda child: child.start_byte)


def _values(node: Node) -> list[Node]:
    """The function that a variable is declared to be."""
    declared = next((child for child in node.named_children if child.type == "variable_declarator"), node)
    value = declared.child_by_field_name("value")
    return [value] if value is not None else []
