"""Conversations of a Slack export."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opx.errors import InvalidInputError, SourceRefusedError, SourceShapeError
from opx_connectors import slack_export
from opx_connectors.slack_export import slack_markdown
from tests.support.workplace_support import a_connector, documents_of, named, pulled, resumed_after_each, text_of

DAY = 1_704_153_600  # 2 January 2024
Export = dict[str, Any]


def a_message(text: str, ts: float, user: str = "U1", **more: Any) -> dict[str, Any]:
    return {"type": "message", "text": text, "ts": f"{ts:.6f}", "user": user, **more}


def an_export(**days: list[Any]) -> Export:
    """`general_2024_01_02=[...]`."""
    files: Export = {
        "channels.json": [{"id": "C1", "name": "general"}, {"id": "C2", "name": "ops-eu"}],
        "users.json": [
            {"id": "U1", "name": "ann", "profile": {"display_name": "", "real_name": "Ann A"}},
            {"id": "U2", "name": "bob", "real_name": "Bob"},
        ],
    }
    for name, messages in days.items():
        channel, _, day = name.partition("_")
        files[f"{channel}/{day.replace('_', '-')}.json"] = messages
    return files


def folder_of(export: Export, path: Path) -> Path:
    for name, content in export.items():
        file = path / "export" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content))
    return path / "export"


def zip_of(export: Export, path: Path) -> Path:
    with zipfile.ZipFile(path / "export.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in export.items():
            file.writestr(name, content if isinstance(content, str) else json.dumps(content))
    return path / "export.zip"


@pytest.fixture(params=[folder_of, zip_of])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Export], str]:
    return lambda export: str(request.param(export, tmp_path))


def test_thread_is_one_document_and_other_messages_are_one_document_a_day(written: Callable[[Export], str]) -> None:
    thread = f"{DAY + 60:.6f}"
    export = an_export(
        general_2024_01_02=[
            a_message("good morning", DAY),
            a_message(
                "disk of <@U2> is full", DAY + 60, thread_ts=thread, reply_count=2, latest_reply=f"{DAY + 90000:.6f}"
            ),
            a_message("looking", DAY + 70, "U2", thread_ts=thread),
        ],
        general_2024_01_03=[a_message("fixed", DAY + 90_000, "U2", thread_ts=thread), a_message("bye", DAY + 90_001)],
    )
    found = documents_of(pulled(a_connector("slack_export", path=written(export))))
    assert set(found) == {"general/2024-01-02", "general/2024-01-03", f"general/thread-{thread}"}
    text = text_of(found[f"general/thread-{thread}"])
    assert text.startswith(
        "# #general: disk of @Bob is full\n\n**Ann A** (2024-01-02 00:01 UTC):\n\ndisk of @Bob is full"
    )
    assert text.index("looking") < text.index("fixed")
    assert "disk of" not in text_of(found["general/2024-01-02"])
    assert found[f"general/thread-{thread}"].metadata == {
        "title": "#general: disk of @Bob is full",
        "tags": ["slack", "general"],
        "created_at": "2024-01-02T00:01:00Z",
        "last_updated": "2024-01-03T01:00:00Z",
        "author": "Ann A",
    }


def test_a_reply_whose_beginning_is_not_in_the_export_is_read(written: Callable[[Export], str]) -> None:
    export = an_export(general_2024_01_02=[a_message("late", DAY, thread_ts="1600000000.000000")])
    assert set(documents_of(pulled(a_connector("slack_export", path=written(export))))) == {
        "general/thread-1600000000.000000"
    }


def test_a_listing_is_complete_and_has_the_selected_channels(written: Callable[[Export], str]) -> None:
    export = an_export(general_2024_01_02=[a_message("a", DAY)])
    export["ops-eu/2024-01-02.json"] = [a_message("b", DAY)]
    pages = pulled(a_connector("slack_export", path=written(export), channels=["ops-eu"]))
    assert named(pages) == {"ops-eu/2024-01-02"}
    assert pages[-1].complete


def test_a_pull_that_stops_after_any_page_resumes_there(
    written: Callable[[Export], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_export, "PAGE_DOCUMENTS", 2)
    days: dict[str, list[Any]] = {}
    for day in range(1, 20):
        ts = DAY + (day - 2) * 86_400
        thread = f"{ts:.6f}"
        later = f"{ts + 3 * 86_400:.6f}"
        days.setdefault(f"general_2024_01_{day:02}", []).extend(
            [a_message("start", ts, thread_ts=thread, reply_count=1, latest_reply=later), a_message("alone", ts + 5)]
        )
        days.setdefault(f"general_2024_01_{day + 3:02}", []).append(a_message("end", ts + 3 * 86_400, thread_ts=thread))
    export = an_export(**days)
    export["ops-eu/2024-01-02.json"] = [a_message("b", DAY)]
    connector = a_connector("slack_export", path=written(export))
    whole = documents_of(pulled(connector))
    assert all("start" in text_of(each) and "end" in text_of(each) for key, each in whole.items() if "thread" in key)
    pages = pulled(connector)
    for stop in range(1, len(pages)):
        rest = pulled(connector, cursor=pages[stop - 1].cursor)
        assert documents_of([*pages[:stop], *rest]) == whole
    resumed = list(resumed_after_each(connector))
    assert all(both == set(whole) for _, both in resumed)
    assert [named(rest) for rest, _ in resumed[-2:]] == [{"ops-eu/2024-01-02"}, set()]


def test_joining_and_leaving_is_left_out(written: Callable[[Export], str]) -> None:
    export = an_export(
        general_2024_01_02=[
            a_message("<@U1> has joined the channel", DAY, subtype="channel_join"),
            a_message("hi", DAY + 1, edited={"user": "U1", "ts": "1"}, files=[{"name": "log.txt"}]),
        ]
    )
    text = text_of(documents_of(pulled(a_connector("slack_export", path=written(export))))["general/2024-01-02"])
    assert "joined" not in text
    assert "UTC, edited):\n\nhi\n\n[file: log.txt]" in text


def test_bot_message_without_text_has_the_text_of_its_attachment(written: Callable[[Export], str]) -> None:
    alert = a_message("", DAY, subtype="bot_message", attachments=[{"fallback": "CPU at 99 %"}], username="Alerts")
    del alert["user"]
    text = text_of(
        documents_of(pulled(a_connector("slack_export", path=written(an_export(general_2024_01_02=[alert])))))[
            "general/2024-01-02"
        ]
    )
    assert "**Alerts** (2024-01-02 00:00 UTC):\n\nCPU at 99 %" in text


def test_a_message_has_its_address_in_the_workspace(written: Callable[[Export], str]) -> None:
    path = written(an_export(general_2024_01_02=[a_message("a", DAY)]))
    found = documents_of(pulled(a_connector("slack_export", path=path, workspace_url="https://x.slack.com/")))
    assert found["general/2024-01-02"].metadata["source_uri"] == "https://x.slack.com/archives/C1/p1704153600000000"


def test_an_odd_message_is_refused_and_the_others_are_read(written: Callable[[Export], str]) -> None:
    export = an_export(
        general_2024_01_02=[a_message("a", DAY), {"text": "no time"}, a_message("b", DAY) | {"ts": "soon"}]
    )
    pages = pulled(a_connector("slack_export", path=written(export)))
    assert set(documents_of(pages)) == {"general/2024-01-02"}
    assert len([each for page in pages for each in page.refused]) == 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"channels.json": {}}, "a list in channels.json"),
        ({"channels.json": []}, "channels.json with channels"),
        ({"channels.json": [{"id": "C1", "label": "general"}]}, "id and name"),
        ({"general/2024-01-02.json": {"messages": []}}, "a list of messages"),
        ({"general/2024-01-02.json": "[{"}, "not JSON"),
        ({"general/2024-01-02.json": [{"time": 1}, {"time": 2}]}, "'ts'"),
    ],
)
def test_another_shape_states_the_expected_format(
    written: Callable[[Export], str], change: Export, problem: str
) -> None:
    export = an_export(general_2024_01_02=[a_message("a", DAY)]) | change
    with pytest.raises(SourceShapeError, match=problem):
        pulled(a_connector("slack_export", path=written(export)))


def test_a_missing_channel_is_reported(written: Callable[[Export], str]) -> None:
    with pytest.raises(SourceShapeError, match="no channel nope"):
        pulled(a_connector("slack_export", path=written(an_export()), channels=["nope"]))


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path) -> None:
    bomb = an_export(general_2024_01_02=[]) | {"general/2024-01-02.json": "[" + " " * 30_000_000 + "]"}
    with pytest.raises(SourceRefusedError, match="unpacks to"):
        pulled(a_connector("slack_export", path=str(zip_of(bomb, tmp_path))))


def test_a_zip_that_lies_about_sizes_is_stopped(tmp_path: Path) -> None:
    path = zip_of(an_export(general_2024_01_02=[a_message("a" * 5000, DAY)]), tmp_path)
    data = bytearray(path.read_bytes())
    at = data.rindex(b"general/2024-01-02.json") - 46 + 24
    data[at : at + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(SourceShapeError):
        pulled(a_connector("slack_export", path=str(path)))


def test_a_damaged_zip_shows_in_the_health(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(b"PK\x03\x04 nothing")
    assert "zip file" in a_connector("slack_export", path=str(tmp_path / "x.zip")).check().reason
    assert "no export" in a_connector("slack_export", path=str(tmp_path / "y.zip")).check().reason


def test_an_export_that_can_be_read_is_well(written: Callable[[Export], str]) -> None:
    assert a_connector("slack_export", path=written(an_export())).health_check()


def test_a_path_must_be_absolute() -> None:
    with pytest.raises(InvalidInputError, match="absolute"):
        a_connector("slack_export", path="export.zip")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("*bold* _slanted_ ~gone~ `*code*`", "**bold** *slanted* ~~gone~~ `*code*`"),
        ("<https://x.example|docs> <https://x.example>", "docs (https://x.example) https://x.example"),
        ("<#C1> <#C9|other> <@U1> <@U9> <!here> <!subteam^S1|@oncall>", "#general #other @Ann @U9 @here @oncall"),
        ("a &lt;b&gt; &amp; c", "a <b> & c"),
        ("```if a &lt; b:\n  *x*```", "```\nif a < b:\n  *x*\n```"),
        ("• one\n• two", "- one\n- two"),
        ("# not a heading of ours", "### not a heading of ours"),
        ("snake_case_name 2*3*4", "snake_case_name 2*3*4"),
    ],
)
def test_markup_becomes_markdown(given: str, expected: str) -> None:
    assert slack_markdown(given, {"U1": "Ann"}, {"C1": "general"}, 2) == expected


@pytest.mark.timeout(10)
@pytest.mark.parametrize("part", ["*a ", "<@", "<a|", "```", "`a", "_a ", "~a ", "&lt"])
def test_markup_that_never_closes_takes_no_time_that_grows_with_its_square(part: str) -> None:
    slack_markdown(part * 20_001, {}, {}, 2)


def test_of_too_many_threads_the_oldest_is_given_as_it_is(
    written: Callable[[Export], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_export, "MAX_OPEN_THREADS", 1)
    started = [
        a_message(f"start {number}", DAY + number, thread_ts=f"{DAY + number:.6f}", reply_count=1)
        for number in range(3)
    ]
    late = a_message("late", DAY + 86_400, thread_ts=f"{DAY:.6f}")
    export = an_export(general_2024_01_02=started, general_2024_01_03=[late])
    found = documents_of(pulled(a_connector("slack_export", path=written(export))))
    assert "start 0" in text_of(found[f"general/thread-{DAY:.6f}"])
    assert len(found) == 3
