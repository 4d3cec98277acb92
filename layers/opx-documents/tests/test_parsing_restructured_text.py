"""reStructuredText."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.parsing_support import outcome, parsed, text_of

PAGE = """\
============
The checkout
============

:Author: Ana
:Version: 1.2
:Date: 2025-01-02

Intro with `a link <https://example.org>`_ and ``code``.

Steps
=====

1. one
2. two

   * nested

Deep
----

text
"""


def test_title_and_field_list_are_title_and_metadata() -> None:
    found = parsed(PAGE, "a.rst")
    assert found.title == "The checkout"
    assert found.metadata == {"author": "Ana", "version": "1.2", "last_updated": "2025-01-02"}


def test_sections_lists_and_links_are_markdown() -> None:
    assert text_of(PAGE, "a.rst") == (
        "# The checkout\n\nIntro with a link (https://example.org) and `code`.\n\n## Steps\n\n1. one\n2. two\n\n"
        "   - nested\n\n### Deep\n\ntext\n\n"
    )


def test_a_page_without_a_title_has_none() -> None:
    assert parsed("text\n", "a.rest").title is None


def test_notes_are_named() -> None:
    assert text_of(".. note:: Be careful\n   here.\n", "a.rst") == "**Note:** Be careful\nhere.\n\n"


@pytest.mark.parametrize(
    "text",
    [
        ".. code-block:: sh\n   :linenos:\n   :emphasize-lines: 1\n\n   df -h\n",
        ".. code:: sh\n\n   df -h\n",
        ".. sourcecode:: sh\n\n   df -h\n",
    ],
)
def test_code_keeps_its_language(text: str) -> None:
    assert text_of(text, "a.rst") == "```sh\ndf -h\n```\n\n"


def test_literal_blocks_are_code() -> None:
    assert text_of("Run::\n\n   # all\n   df -h\n", "a.rst") == "Run:\n\n```\n# all\ndf -h\n```\n\n"


@pytest.mark.parametrize(
    "table",
    [
        "+------+------+\n| Name | Port |\n+======+======+\n| db   | 2|3  |\n+------+------+\n",
        "====  ====\nName  Port\n====  ====\ndb    2|3\n====  ====\n",
        ".. list-table::\n   :header-rows: 1\n\n   * - Name\n     - Port\n   * - db\n     - 2|3\n",
        '.. csv-table::\n   :header: "Name", "Port"\n\n   "db", "2|3"\n',
    ],
)
def test_tables_are_markdown_tables(table: str) -> None:
    assert text_of(table, "a.rst") == "| Name | Port |\n| --- | --- |\n| db | 2\\|3 |\n\n"


def test_roles_of_sphinx_are_their_text() -> None:
    text = "See :ref:`the title <target>`, :doc:`usage`, :py:func:`os.path.join` and :kbd:`Ctrl`.\n"
    assert text_of(text, "a.rst") == "See the title, usage, `os.path.join` and `Ctrl`.\n\n"


def test_directives_of_sphinx_are_readable() -> None:
    text = (
        ".. toctree::\n   :maxdepth: 2\n\n   install\n   Usage <usage>\n\n"
        ".. versionadded:: 3.2\n   The thing.\n\n"
        ".. py:function:: join(a, b)\n   :noindex:\n\n   Joins **things**.\n\n   :param a: first\n\n"
        ".. kernel-doc:: drivers/x.c\n   :functions: a b\n"
    )
    assert text_of(text, "a.rst") == (
        "- install\n- Usage\n\nAdded in version 3.2: The thing.\n\n**function::** `join(a, b)`\n\nJoins **things**.\n\n"
        "- **param a**: first\n\n**kernel-doc::** `drivers/x.c` (functions: a b)\n\n"
    )


def test_directives_within_others_are_read_too() -> None:
    assert (
        text_of(".. unknown:: x\n\n   .. other::\n\n      deep\n", "a.rst")
        == "**unknown::** `x`\n\n**other::**\n\ndeep\n\n"
    )


def test_definitions_and_footnotes_are_kept() -> None:
    text = text_of("term\n  what it is\n\nSee [1]_.\n\n.. [1] The note.\n", "a.rst")
    assert text == "- **term**: what it is\n\nSee 1.\n\n[1] The note.\n\n"


def test_no_file_is_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hidden-words\n")
    directives = (
        f".. include:: {secret}\n\n.. literalinclude:: {secret}\n\n.. raw:: html\n   :file: {secret}\n\n"
        f".. csv-table:: T\n   :file: {secret}\n\n.. include:: {secret}\n   :literal:\n\nend\n"
    )
    found = parsed(directives, "a.rst")
    assert "hidden-words" not in "".join(found.lines)
    assert f"a.rst: `include {secret}` is not followed" in [one.text for one in found.remarks]


def test_the_date_is_not_put_in() -> None:
    assert "20" not in text_of(".. |now| date::\n\nOn |now|.\n", "a.rst")


def test_one_page_does_not_change_how_another_is_read() -> None:
    page = "A :custom:`text` and `plain`.\n"
    before = text_of(page, "a.rst")
    text_of(".. role:: custom(strong)\n.. default-role:: math\n\n:custom:`x`\n", "b.rst")
    assert text_of(page, "a.rst") == before


def test_broken_markup_is_kept_without_warnings(capfd: pytest.CaptureFixture[str]) -> None:
    text = text_of("Broken *emphasis and |unknown| and `x`__\n\nTitle\n==\n\n.. figure::\n\n+--+\n| a\n", "a.rst")
    assert "Broken *emphasis and |unknown|" in text
    assert "| a" in text
    assert capfd.readouterr() == ("", "")


def test_text_does_not_become_a_heading() -> None:
    assert text_of("a\n# b\n", "a.rst") == "a\n\\# b\n\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("*a " * 20_000, "a paragraph has more than 32 KiB"),
        ("".join(" " * n + "a\n\n" for n in range(200)), "nested too deeply"),
        ("".join(" " * n + "a\n\n" for n in range(2_000)), "nested too deeply"),
        ("- " * 2_000 + "a\n", "nested too deeply"),
        (f"{'long line ' * 50}\n\n" * 2_000, "more than 512 KiB"),
        ("a\n\n" * 20_000, "more than 20,000 lines"),
        (".. _a: b\n\n" * 6_000, "more than 5,000 directives"),
        ("a_ b_ c_\n\n" * 3_000, "more than 5,000 directives"),
    ],
)
def test_content_beyond_the_limits_is_kept_as_text_with_a_remark(text: str, problem: str) -> None:
    found = parsed(text, "a.rst")
    assert "".join(found.lines) == text
    assert problem in found.remarks[0].text


@pytest.mark.parametrize(
    "line", ["*a ", "`a ", "|a ", "a_ ", "[a]_ ", "``", ":a:`b` ", "_`a ", "http://a ", "\\", "- a\n", "a\n=\n\n"]
)
def test_repetitive_pages_are_taken(line: str) -> None:
    assert outcome(line * 200 + "\n", "a.rst") == "parsed"


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [
                "Title",
                "=====",
                "-----",
                "* a",
                "1. b",
                ".. note::",
                ".. x:: y",
                "   text",
                ":a: b",
                "",
                "+--+",
                "|a |",
                "::",
                ".. [1] f",
                ".. _t:",
                ".. |s| replace:: x",
                "|s|",
                "a_",
                "`r`__",
                ".. class:: x",
                ".. table:: t",
                ".. image:: a",
                ".. contents::",
                ".. sectnum::",
                ".. target-notes::",
                ".. header:: x",
                ".. meta::",
                ".. math::",
                ".. role:: z",
            ]
        )
        | st.text(st.sampled_from("a1 *_`|:.-+=[]<>\\"), max_size=15),
        max_size=15,
    )
)
def test_no_page_fails_but_by_a_refusal(lines: list[str]) -> None:
    found = outcome("\n".join(lines), "a.rst")
    assert found == "parsed" or found.startswith("a.rst: ")
