"""Long tables keep the names of their columns in every part."""

from __future__ import annotations

from opx.formats.writing import PIECE, with_repeated_heads

HEAD = "| host | state |\n| --- | --- |\n"


def rows(count: int) -> list[str]:
    return [f"| web-{number:04} | {'running ' * 4}|\n" for number in range(count)]


def joined(text: str) -> str:
    return "".join(with_repeated_heads(text.splitlines(keepends=True)))


def test_a_short_table_is_left_alone() -> None:
    text = f"# T\n\n{HEAD}{''.join(rows(5))}\nafter\n"
    assert joined(text) == text


def test_a_long_one_gets_its_head_again_and_loses_no_row() -> None:
    found = joined(HEAD + "".join(rows(200)))
    parts = found.split(HEAD)[1:]
    assert len(parts) > 5
    assert "".join(parts).replace("\n\n", "\n").count("| web-") == 200
    assert all(len(part) < 2 * PIECE for part in parts)


def test_each_table_has_its_own_head() -> None:
    other = HEAD.replace("host", "disk")
    found = joined(HEAD + "".join(rows(60)) + "\n" + other + "".join(rows(60)))
    assert found.count(HEAD) > 1
    assert found.rindex(HEAD) < found.index(other)


def test_rows_within_code_are_no_table() -> None:
    text = "```\n" + HEAD + "".join(rows(200)) + "```\n"
    assert joined(text) == text


def test_a_huge_head_is_not_repeated() -> None:
    head = f"| {'wide ' * 100}| b |\n| --- | --- |\n"
    assert joined(head + "".join(rows(100))).count("wide wide") == joined(head).count("wide wide")
