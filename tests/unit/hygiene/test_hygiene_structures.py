"""Secrets that structures over lines state: their positions, their ends, and hostile lines."""

from __future__ import annotations

import base64
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.hygiene.cleaning import Cleaner
from opx.hygiene.secrets import mask, secret_formats

PASSWORD = "Blaumeise"
WRAPPED = "wJalr7UtnFEmIK7MdENGbPxRfiCYq2s9Kd83hTze"
VALUE = base64.b64encode(b"bird:Blaumeise").decode()


def masked_lines(text: str) -> list[int]:
    """Numbers of the lines, from 0, in which something is masked."""
    return [number for number, line in enumerate(mask(text)[0].splitlines()) if "[masked " in line]


class TestTables:
    def test_only_the_column_is_masked(self) -> None:
        text = f"| Host | Password | Note |\n|---|---|---|\n| a | {PASSWORD} | spare |\n"
        masked, (finding,) = mask(text)
        assert masked == text.replace(PASSWORD, finding.mask)
        assert (finding.kind, finding.line) == ("table-password", 3)

    def test_table_ends_with_its_last_row(self) -> None:
        text = f"| Host | Password |\n|---|---|\n| a | {PASSWORD} |\n\n| b | Kohlmeise |\n"
        assert masked_lines(text) == [2]

    def test_first_row_without_dashes_below_is_no_header(self) -> None:
        assert masked_lines("| Topic | Password |\n| a | Kohlmeise |\n") == []

    def test_table_of_thousands_of_rows_is_masked_to_its_end(self) -> None:
        text = "host,password\n" + f"a,{PASSWORD}\n" * 5000
        assert PASSWORD not in mask(text)[0]

    def test_names_of_secrets_in_a_column_stay(self) -> None:
        text = "| Secret | Used by |\n|---|---|\n| orders-db-credentials | shop |\n"
        assert mask(text) == (text, ())

    def test_names_of_columns_stay_where_they_are_repeated(self) -> None:
        part = f"| Host | Password |\n| --- | --- |\n| a | {PASSWORD} |\n\n"
        masked, _ = mask(part * 2)
        assert masked.count("| Host | Password |") == 2
        assert PASSWORD not in masked

    @pytest.mark.parametrize(
        "rows", ["Pass,Fail\n12,3\n", "Use login, password, or token.\nThe first, second, or third.\n"]
    )
    def test_sentences_and_counts_are_no_tables(self, rows: str) -> None:
        assert mask(rows) == (rows, ())


class TestKubernetes:
    @pytest.mark.parametrize("order", ["kind: Secret\n{}", "{}kind: Secret\n"])
    def test_value_is_masked_wherever_the_kind_stands(self, order: str) -> None:
        text = order.format(f"data:\n  any: {VALUE}\n")
        masked, (finding,) = mask(text)
        assert masked == text.replace(VALUE, finding.mask)

    def test_values_of_a_config_map_stay(self) -> None:
        text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  mode: production\n  url: https://api.internal\n"
        assert mask(text) == (text, ())

    def test_a_config_map_after_a_secret_stays(self) -> None:
        text = f"kind: Secret\ndata:\n  a: {VALUE}\n\nThen:\n\napiVersion: v1\ndata:\n  mode: production\n"
        assert masked_lines(text) == [2]

    def test_any_value_of_a_secret_is_masked_and_a_template_stays(self) -> None:
        assert masked_lines("kind: Secret\ndata:\n  a: 3q2+7w==\n  b: {{ .Values.b }}\n") == [2]

    def test_block_of_lines_in_a_secret_is_masked(self) -> None:
        assert masked_lines("kind: Secret\nstringData:\n  a: |\n    one\n    two\nb: three\n") == [3, 4]


class TestNextLines:
    def test_wrapped_value_is_masked(self) -> None:
        text = f"AWS secret access key:\n{WRAPPED}\n"
        assert masked_lines(text) == [1]

    def test_prose_after_a_heading_stays(self) -> None:
        text = "Password:\n\n  Kohlmeise\n\nPassword:\nKohlmeise\n\nToken:\n  Kohlmeise\n"
        assert mask(text) == (text, ())
        assert masked_lines("Password:\n  Kohlmeise\n") == [1]

    def test_name_and_value_on_their_own_lines(self) -> None:
        assert masked_lines(f"- name: DB_PASSWORD\n  value: {PASSWORD}\n- name: LEVEL\n  value: debug\n") == [1]

    def test_default_of_a_variable(self) -> None:
        text = f'variable "db_password" {{\n  default = "{PASSWORD}"\n}}\nmodule "region" {{\n  default = "west"\n}}\n'
        assert masked_lines(text) == [1]

    def test_password_on_a_line_after_its_user(self) -> None:
        assert masked_lines(f"machine api.internal\nlogin bot\npassword {PASSWORD}\n\n\npassword reset\n") == [2]

    def test_answer_to_a_prompt_of_a_script(self) -> None:
        text = f'expect "assword:"\nsend "{PASSWORD}\\r"\nexpect "#"\nsend "show version\\r"\n'
        assert masked_lines(text) == [1]

    def test_putty_key_and_nothing_after_it(self) -> None:
        line = "AAAAB3NzaC1yc2EAAAADAQABAAABAQ"
        assert masked_lines(f"Public-Lines: 1\n{line}\nPrivate-Lines: 2\n{line}\n{line}\nPrivate-MAC: 7\n") == [3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "password: Example-owls-9xQ7rT2w",
        "DB_PASSWORD=winterschlaf",
        "mysql -u root -p'two words' shop",
        "The root password is Wasserfall.",
        f"machine a login b password {PASSWORD}",
        f"enable secret 0 {PASSWORD}",
        f"<password>{PASSWORD}</password>",
    ],
)
def test_masking_again_changes_nothing(text: str) -> None:
    masked, findings = mask(text + "\n")
    assert len(findings) == 1
    assert mask(masked) == (masked, ())


def test_a_structure_over_blocks_of_the_cleaner_is_followed() -> None:
    lines = ["| Host | Password |\n", "|---|---|\n", *[f"| {'x' * 80} | {PASSWORD} |\n"] * 1000]
    cleaner = Cleaner()
    output = "".join(cleaner.clean(lines))
    assert PASSWORD not in output
    assert cleaner.remarks[0].text.startswith("line 3: password in a table")


HINTS = sorted({hint for form in secret_formats() for hint in form.hints})
HOSTILE = ("{} ", "{}:", "{} -p ", '"{}": "', "| {} ", "{}_", "{}.")
LENGTH = 8_192


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", HOSTILE)
def test_lines_of_repeated_literals_take_time_that_grows_with_their_length(form: str) -> None:
    for hint in HINTS:
        piece = form.format(hint)
        line = (piece * (LENGTH // len(piece)))[:LENGTH] + "\n"
        assert len(list(Cleaner().clean([line]))) == 1


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([*HINTS, *(a + b for a, b in product(" \t\"'`=:|,;<>{}[]$-", " =\"'"))]), max_size=6
    )
)
def test_lines_of_any_literals_are_cleaned_to_as_many_lines(pieces: list[str]) -> None:
    piece = "".join(pieces) or " "
    lines = [(piece * (8000 // len(piece)))[:8000] + "\n"] * 3
    assert "".join(Cleaner().clean(lines)).count("\n") == 3
