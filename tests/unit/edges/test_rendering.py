"""Markdown in a terminal: code is exact whatever the width, and nothing of a document acts on the terminal."""

from __future__ import annotations

import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from opx.edges.cli.output import Screen
from opx.edges.cli.rendering import rendered
from tests.support.cli_support import ROOT

DOCUMENTS = sorted((ROOT / "corpus" / "documents").rglob("*.md"))
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def page(text: str, width: int = 80, *warnings: str) -> str:
    return "\n".join(rendered(text, Screen(width), dict.fromkeys(warnings, "warning")))


def fenced_lines(text: str) -> list[str]:
    tokens = MarkdownIt("commonmark").parse(text)
    return [line for token in tokens if token.type == "fence" for line in token.content.split("\n") if line.strip()]


class TestCode:
    @pytest.mark.parametrize(
        "screen", [Screen(80), Screen(200), Screen(80, colours=True)], ids=["80", "200", "colours"]
    )
    def test_every_fenced_line_of_the_corpus_is_a_line_of_the_output(self, screen: Screen) -> None:
        count, altered = 0, []
        for path in DOCUMENTS:
            text = path.read_text(encoding="utf-8")
            shown = {click.unstyle(line).lstrip(" ") for line in rendered(text, screen)}
            lines = fenced_lines(text)
            count += len(lines)
            altered += [line for line in lines if line.lstrip(" ") not in shown]
        assert count > 1000
        assert altered == []

    @pytest.mark.parametrize(
        "line",
        [
            "kubectl get pods -n <ns> \\",
            "\tindented by a tab\tand one within",
            "rm -rf `date +%F`/*  ",
            "* * * * * root /usr/bin/backup # nightly",
            'sum(rate({__name__=~"x"}[5m]))',
            "<div>&amp;&lt;pod&gt;</div>",
            "x" * 300,
            "[Warning: in code]",
        ],
    )
    @pytest.mark.parametrize("language", ["", "bash", "yaml", "no-such-language"])
    def test_line_stays_character_by_character(self, line: str, language: str) -> None:
        for colours in (False, True):
            shown = rendered(f"```{language}\n{line}\n```\n", Screen(40, colours))
            assert [click.unstyle(one) for one in shown] == [line]

    def test_code_of_a_list_item_is_as_deep_as_its_text(self) -> None:
        assert page("12. Run\n    ```sh\n    a \\\n      b\n    ```\n") == "12. Run\n\n    a \\\n      b"

    def test_here_document_begins_at_the_left_as_its_end_has_to(self) -> None:
        assert page("1. Run\n   ```sh\n   cat <<EOF\n   x\n   EOF\n   ```\n") == "1. Run\n\ncat <<EOF\nx\nEOF"

    def test_empty_lines_of_code_are_kept_and_not_padded(self) -> None:
        assert page("- x\n  ```\n  a\n\n\n  b\n  ```\n") == "- x\n\n  a\n\n\n  b"

    def test_quoted_code_has_no_mark_before_it(self) -> None:
        assert page("> Look\n>\n> ```\n> kubectl get pods\n> ```\n") == "> Look\n\nkubectl get pods"


class TestProse:
    def test_long_lines_are_wrapped_at_the_width_and_at_120_at_most(self) -> None:
        text = "word " * 100
        assert max(map(len, page(text, 60).split("\n"))) == 59
        assert max(map(len, page(text, 300).split("\n"))) == 119

    def test_code_span_is_neither_broken_nor_altered(self) -> None:
        span = "`kubectl -n data exec metabase-db-0 -- psql -c 'CREATE TEMP TABLE t(x int)'`"
        for width in (20, 60, 80, 120):
            assert span in page(f"The application writes again: {span} succeeds, as it did before.", width)

    @pytest.mark.parametrize(
        "text",
        [
            "Replace <pod> and <b>.",
            '{__name__=~"x"} matches all',
            "SELECT count(*), sum(*) FROM t",
            "copy src/**/x and lib/**/y",
            "delete *prod* indices",
            "* * * * * /usr/bin/backup",
            "* * *",
            "Use `` `date` `` here",
            "kubectl get pods \\\n--all",
        ],
    )
    def test_a_possible_command_keeps_every_character(self, text: str) -> None:
        assert page(text) == text

    def test_marks_around_words_are_left_out(self) -> None:
        assert page("This is **not** safe.") == "This is not safe."

    def test_short_lines_are_kept_and_filled_ones_wrapped_anew(self) -> None:
        assert page("drain db-01\nreboot db-01") == "drain db-01\nreboot db-01"
        filled = "This line was wrapped by the editor of its author at that column\nand goes on here."
        assert page(filled, 120) == filled.replace("\n", " ")

    def test_lists_are_numbered_as_written(self) -> None:
        text = "3. three\n4. four\n\n7) seven\n\n* star\n- dash"
        assert page(text) == "3. three\n4. four\n\n7) seven\n\n* star\n\n- dash"

    def test_links_have_their_target_unless_they_are_named_by_it(self) -> None:
        text = "[the page](https://x.org/a b) [kafka](kafka.md) <https://x.org> [a](javascript:x) ![pic](p.png)"
        assert (
            page(text, 120)
            == "[the page](https://x.org/a b) kafka https://x.org [a](javascript:x) [image: pic] (p.png)"
        )
        assert page("[the page](https://x.org/)") == "the page (https://x.org/)"


class TestTables:
    TEXT = (
        "| Command | Effect |\n|---|---|\n| `kubectl delete pod <pod>` | The pod is made anew, which takes a while |\n"
    )

    def test_columns_are_aligned(self) -> None:
        assert page(self.TEXT, 100).split("\n") == [
            "Command                     Effect",
            "─" * 26 + "  " + "─" * 41,
            "`kubectl delete pod <pod>`  The pod is made anew, which takes a while",
        ]

    def test_wide_letters_take_two_cells(self) -> None:
        assert page("| 磁盘 | x |\n|---|---|\n| ab | y |\n").split("\n") == ["磁盘  x", "────  ─", "ab    y"]

    def test_table_without_heads_has_no_line_for_them(self) -> None:
        assert page("| | |\n|---|---|\n| **Owner** | storage |\n| Pager | none |\n") == "Owner  storage\nPager  none"

    def test_wide_cells_are_wrapped_between_words(self) -> None:
        lines = page(self.TEXT, 60).split("\n")
        assert lines[2].startswith("`kubectl delete pod <pod>`  The pod")
        assert max(map(len, lines)) <= 60

    def test_cells_are_lines_where_columns_do_not_fit(self) -> None:
        assert page(self.TEXT, 30).split("\n") == [
            "Command:",
            "  `kubectl delete pod <pod>`",
            "Effect: The pod is made",
            "  anew, which takes a while",
        ]

    @pytest.mark.parametrize("width", [20, 40, 80, 200])
    def test_no_cell_is_lost(self, width: int) -> None:
        words = page(self.TEXT, width).split()
        assert "`kubectl" in words
        assert "while" in words


class TestWarnings:
    def test_warning_stands_before_the_item_that_it_is_of(self) -> None:
        text = "1. one\n[Warning: tried]\n2. two\n\n```\na\n[Warning: tried]\nb\n```\n"
        assert page(text, 80, "[Warning: tried]") == "1. one\n[Warning: tried]\n2. two\n\n[Warning: tried]\n\na\nb"

    def test_warning_at_the_end_is_not_lost(self) -> None:
        assert page("text\n[Warning: tried]", 80, "[Warning: tried]") == "text\n[Warning: tried]"


class TestHostileText:
    HOSTILE = "a\x1b]8;;http://evil\x1b\\b\x1b[2J\x07\x9b31m\u202ec\u2066\r\x00"

    @pytest.mark.parametrize(
        "text",
        [HOSTILE, f"# {HOSTILE}", f"```\n{HOSTILE}\n```", f"| {HOSTILE} |\n|---|\n| {HOSTILE} |", f"`{HOSTILE}`"],
    )
    @pytest.mark.parametrize("colours", [False, True])
    def test_control_characters_never_reach_the_terminal(self, text: str, colours: bool) -> None:
        shown = "\n".join(rendered(text, Screen(80, colours, links=True)))
        assert not CONTROL.search(re.sub(r"\x1b\[[0-9;]*m", "", shown) if colours else shown)

    @given(st.text(), st.integers(1, 200))
    def test_any_text_is_rendered(self, text: str, width: int) -> None:
        shown = page(text, width)
        assert not CONTROL.search(shown)
        assert not shown or shown.strip("\n")

    @given(st.text(alphabet="ab *_`[]()<>|#-1.\n\\~>"))
    def test_colours_change_no_word(self, text: str) -> None:
        plain = [line.rstrip() for line in rendered(text, Screen(60))]
        assert [click.unstyle(line).rstrip() for line in rendered(text, Screen(60, colours=True))] == plain


class TestScreen:
    def test_links_are_of_known_kinds_alone(self) -> None:
        screen = Screen(80, links=True)
        assert screen.link("x", "javascript:alert(1)") == "x"
        assert screen.link("x", "https://a/b c\x1b") == "\x1b]8;;https://a/b%20c%1B\x1b\\x\x1b]8;;\x1b\\"
        assert Screen().link("x", "https://a") == "x"
