"""Markdown of documentation sites, read as plain Markdown."""

from __future__ import annotations

import pytest

from opx.formats.markup.plain import MAX_BYTES
from opx_connectors.github.repository_docs import read_page

PAGE = """---
title: Restart a node
description: How a node is restarted
ms.topic: how-to
ms.date: 03/04/2025
author: ann
ms.custom: [a, b]
zone_pivot_groups: x
---

# Restart a node

> [!NOTE]
> Drain it first.

See [alerts](../alerts/overview.md#tab) and [the site](https://example.com/x "Site").

:::image type="content" source="./media/a.png" alt-text="Screenshot of the portal." lightbox="./media/b.png":::

[!INCLUDE [Sign in](../includes/sign-in.md)]

::: zone pivot="linux"
## [Portal](#tab/portal)

Select **Restart**.
::: zone-end

```yaml
# [Portal](#tab/portal)
> [!NOTE]
a: [b](c.md) <!-- kept -->
```

<!-- hidden
still hidden --> shown<a name="here"></a>
"""


def test_page_reads_as_plain_markdown() -> None:
    assert read_page(PAGE, "a.md").text == (
        "# Restart a node\n\n"
        "> **Note:** \n> Drain it first.\n\n"
        'See alerts and [the site](https://example.com/x "Site").\n\n'
        "(Image: Screenshot of the portal.)\n\n"
        "(Included text: Sign in)\n\n"
        "**Portal**\n\nSelect **Restart**.\n\n"
        "```yaml\n# [Portal](#tab/portal)\n> [!NOTE]\na: [b](c.md) <!-- kept -->\n```\n\n"
        " shown\n"
    )


def test_front_matter_becomes_facts() -> None:
    page = read_page(PAGE, "a.md")
    assert (page.title, page.description) == ("Restart a node", "How a node is restarted")
    assert (page.updated, page.author, page.topic) == ("2025-03-04", "ann", "how-to")


@pytest.mark.parametrize(
    ("date", "expected"),
    [
        ("12/26/2023", "2023-12-26"),
        ("1/2/2023", "2023-01-02"),
        ("2024-05-06", "2024-05-06"),
        ("2024-05-06T07:08:09Z", "2024-05-06"),
        ("31/12/2023", ""),
        ("02/30/2023", ""),
        ("soon", ""),
    ],
)
def test_dates_are_read_month_first_or_not_at_all(date: str, expected: str) -> None:
    assert read_page(f'---\ntitle: T\nms.date: "{date}"\n---\nText', "a.md").updated == expected


def test_front_matter_that_is_not_yaml_leaves_the_title_and_is_not_in_the_text() -> None:
    page = read_page('---\ntitle: "A: b"\nms.custom: *alias\ntitle: again\n---\n# H\n', "a.md")
    assert (page.title, page.text) == ("again", "# H\n")


def test_front_matter_without_an_end_is_text() -> None:
    assert "title: x" in read_page("---\ntitle: x\nmore\n", "a.md").text


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('> [!div class="nextstepaction"]', ""),
        ("[!VIDEO https://example.com/v]", "Video: https://example.com/v"),
        (':::code language="bash" source="~/s/a.sh" range="1-3":::', "(Code: ~/s/a.sh)"),
        (':::image type="icon" source="i.png":::', ""),
        (":::row:::", ""),
        ("{{< note >}}Careful{{< /note >}}", "Careful"),
        ("use <xref:System.IO.File?displayProperty=name>", "use `System.IO.File`"),
        ("![A diagram](media/d.svg)", "(Image: A diagram)"),
        ("![](d.svg)", ""),
        ("[mail](mailto:a@example.com)", "[mail](mailto:a@example.com)"),
        ("[up](/azure/x) [here](#there)", "up here"),
        ("a&nbsp;b", "a b"),
        ("plain [x] and ( y )", "plain [x] and ( y )"),
    ],
)
def test_extensions(line: str, expected: str) -> None:
    assert (
        read_page(f"before\n{line}\nafter", "a.md").text
        == "\n".join(filter(None, ("before", expected, "after"))) + "\n"
    )


def test_windows_line_ends_and_byte_order_marks_are_left_out() -> None:
    page = read_page("\ufeff---\r\ntitle: T\r\n---\r\nText\r\n", "a.md")
    assert (page.title, page.text) == ("T", "Text\n")


@pytest.mark.parametrize(
    "text", ["[" * 50_000, ":::image " * 20_000, "<!--" * 50_000, "![a](" * 20_000, "{{<" * 50_000]
)
def test_long_lines_take_no_long_time(text: str) -> None:
    assert read_page(text, "a.md").title == ""


def test_long_front_matter_is_no_reason_to_fail() -> None:
    page = read_page("---\ntitle: T\nx: " + "y" * MAX_BYTES + "\n---\nText\n", "a.md")
    assert (page.title, page.text) == ("T", "Text\n")
