"""YAML."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.ingestion.chunking import ChunkOwner
from tests.support.parsing_support import a_category, chunk_document, outcome, parsed, text_of

RULES = """\
# Rules of the shop
groups:
  - name: checkout.rules
    rules:
      # pages someone
      - alert: CheckoutErrors
        expr: rate(errors_total[5m]) > 0.05
        for: 10m
        labels: {severity: page}
        annotations:
          summary: Errors at {{ $labels.instance }}
      - record: job:errors:rate5m
        expr: sum by (job) (rate(errors_total[5m]))
"""


def manifest(kind: str, name: str) -> str:
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n"


def test_each_document_is_a_section_under_its_kind_and_name() -> None:
    text = text_of(
        f"---\n{manifest('Deployment', 'checkout')}---\n# its address\n{manifest('Service', 'web')}", "k.yaml"
    )
    assert "## Deployment checkout\n\n```yaml\napiVersion: v1\nkind: Deployment\n" in text
    assert "## Service web\n\n```yaml\n# its address\napiVersion: v1\n" in text


def test_a_single_object_gives_the_title() -> None:
    assert parsed(manifest("Deployment", "checkout"), "deploy/k.yaml").title == "Deployment checkout"


def test_other_files_have_their_path_as_title() -> None:
    assert parsed("a: 1\n", "deploy/values.yaml").title == "deploy/values.yaml"


def test_an_alert_is_a_section_with_all_of_its_fields() -> None:
    text = text_of(RULES, "rules.yaml")
    section = text.partition("Alert CheckoutErrors\n")[2].partition("\n##")[0]
    assert section == (
        "\n```yaml\n# pages someone\n- alert: CheckoutErrors\n  expr: rate(errors_total[5m]) > 0.05\n  for: 10m\n"
        "  labels: {severity: page}\n  annotations:\n    summary: Errors at {{ $labels.instance }}\n```\n"
    )
    assert "## Record job:errors:rate5m\n" in text


def test_an_alert_of_a_kubernetes_rule_is_a_section_too() -> None:
    rules = "spec:\n" + "".join(f"  {line}\n" for line in RULES.splitlines())
    assert "## Alert CheckoutErrors\n" in text_of(manifest("PrometheusRule", "shop") + rules, "rules.yaml")


def test_an_operation_of_an_interface_is_a_section() -> None:
    api = (
        "openapi: 3.0.0\ninfo:\n  title: Shop\n  version: '1.2'\npaths:\n  /users/{id}:\n"
        "    get:\n      summary: Get a user\n    delete:\n      summary: Delete a user\n"
    )
    found = parsed(api, "api.yaml")
    text = "".join(found.lines)
    assert (found.title, found.metadata) == ("Shop", {"version": "1.2"})
    assert "## GET /users/{id}\n\n```yaml\nget:\n  summary: Get a user\n```" in text
    assert "## DELETE /users/{id}\n" in text


def test_large_parts_stand_under_their_path() -> None:
    env = "".join(f"        - name: VARIABLE_{n}\n          value: the value number {n}\n" for n in range(60))
    text = text_of(
        f"services:\n  web:\n    containers:\n      - name: checkout\n        env:\n{env}  db: {{image: pg}}\n",
        "c.yaml",
    )
    chunks = list(chunk_document(text.splitlines(keepends=True), ChunkOwner("d", "c.yaml", "notes")))
    found = next(chunk for chunk in chunks if "VARIABLE_30" in chunk.content)
    assert found.section == ("services.web.containers[checkout].env",)
    assert text.count("- name: VARIABLE_") == 60


def test_comments_are_kept() -> None:
    text = text_of("# first\na: 1 # aside\n# last\n", "a.yaml")
    assert text == "# a.yaml\n\n```yaml\n# first\na: 1 # aside\n# last\n```\n\n"


def test_only_comments_are_kept_too() -> None:
    assert "# nothing here" in text_of("# nothing here\n", "a.yaml")


def test_a_repeated_key_is_kept_and_remarked_on() -> None:
    found = parsed("a: 1\na: 2\n", "a.yaml")
    assert "a: 1\na: 2\n" in "".join(found.lines)
    assert "a key is given again in the mapping of line 1" in found.remarks[0].text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\n\tb: 2\n", "in line 2 (found a tab character"),
        ("metadata:\n  name: x\n  {{- if .Values.labels }}\n  labels: 1\n  {{- end }}\n", "not valid YAML in line"),
        ("a: [1, 2\nb: 3\n", "not valid YAML"),
        ("a: @x\n", "not valid YAML"),
    ],
)
def test_invalid_yaml_is_kept_as_text_with_a_remark(text: str, problem: str) -> None:
    found = parsed(text, "a.yaml")
    assert "".join(found.lines) == f"# a.yaml\n\n```yaml\n{text}```\n\n"
    assert problem in found.remarks[0].text


def test_aliases_are_not_unfolded() -> None:
    bomb = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
    text = text_of(bomb, "a.yaml", a_category(title="$.a59", content="$.a58"))
    assert "a59: &a59 [*a58, *a58]" in text
    assert len(text) < 2 * len(bomb)


@pytest.mark.parametrize("text", ["[" * 50_000, "{a: " * 5_000, "- " * 5_000, "? " * 5_000, "a:\n" + " - b:\n" * 9])
def test_deep_nesting_is_kept_as_text(text: str) -> None:
    assert outcome(text, "a.yaml") == "parsed"


def test_a_large_file_is_kept_as_text() -> None:
    found = parsed("key: some value\n" * 140_000, "a.yaml")
    assert "".join(found.lines).count("key: some value") == 140_000
    assert "2048 KiB" in found.remarks[0].text


def test_many_documents_take_no_square_of_their_number() -> None:
    assert text_of("a: 1\n---\n" * 8_000, "a.yaml").count("## Document ") == 8_001


def test_one_mapping_is_read_by_the_mapping_of_its_category() -> None:
    category = a_category(title="$.title", content="$.steps", tags="$.tags")
    found = parsed("title: Restart\nsteps: Stop it.\ntags: [a, b]\n", "a.yaml", category)
    assert (found.title, found.metadata, "".join(found.lines)) == ("Restart", {"tags": ["a", "b"]}, "Stop it.\n")


def test_of_several_mappings_none_is_used() -> None:
    category = a_category(title="$.title", content="$.steps")
    assert "## Document 2" in text_of("title: a\nsteps: b\n---\ntitle: c\nsteps: d\n", "a.yaml", category)


def test_a_mapping_is_not_used_where_there_are_aliases() -> None:
    category = a_category(title="$.title", content="$.steps")
    assert "steps: *stop" in text_of("title: &stop Stop it\nsteps: *stop\n", "a.yaml", category)


def test_a_mapping_that_does_not_fit_is_not_used() -> None:
    category = a_category(title="$.title", content="$.steps")
    assert "## Alert CheckoutErrors" in text_of(RULES, "a.yaml", category)


@settings(max_examples=40, deadline=None)
@given(
    st.recursive(
        st.sampled_from(["wx", "yz"]),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=9) | st.dictionaries(st.sampled_from("klmn"), inner, min_size=1)
        ),
        max_leaves=150,
    )
)
def test_no_value_is_lost(value: object) -> None:
    import yaml

    text = yaml.safe_dump(value)
    shown = text_of(text, "a.yaml")
    assert (shown.count("wx"), shown.count("yz")) == (text.count("wx"), text.count("yz"))
