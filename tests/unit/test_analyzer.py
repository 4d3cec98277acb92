"""Search terms of identifiers and words."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.text import analyzer
from opx.text.analyzer import analyze, split_identifiers
from opx.text.fields import MAX_TERM_LENGTH, query_terms
from opx.text.vocabulary import STOP_WORDS

calm = settings(deadline=None)  # a busy machine is no failure


def found_by(question: str, document: str) -> bool:
    """Whether every term of the question is one of the document's."""
    terms = analyze(question)
    return bool(terms) and set(terms) <= set(analyze(document))


# -- compounds -------------------------------------------------------------------------------------------------------


def test_a_compound_is_its_whole_and_its_parts() -> None:
    assert analyze("moduleControllerCreate") == ["modulecontrollercr", "modul", "control", "creat"]


@pytest.mark.parametrize(
    "spelling", ["hook.player.connected", "hook-player-connected", "hookPlayerConnected", "hook_player_connected"]
)
def test_every_spelling_of_a_compound_finds_every_other(spelling: str) -> None:
    assert analyze(spelling)[0] == "hookplayerconnect"
    assert set(analyze(spelling)) == set(analyze("hook.player.connected"))


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("player connected", "hook.player.connected"),
        ("hook", "hook.player.connected"),
        ("module controller", "moduleControllerCreate"),
        ("create", "moduleControllerCreate"),
        ("modulecontrollercreate", "moduleControllerCreate"),
        ("KubePodCrashLooping", "the alert KubePodCrashLooping fires"),
        ("kubepodcrashlooping", "the alert KubePodCrashLooping fires"),
        ("kube pod crash looping", "KubePodCrashLooping"),
        ("crash loops", "KubePodCrashLooping"),
        ("ORA-01555", "ORA-01555: snapshot too old"),
        ("ora-01555", "ORA-01555: snapshot too old"),
        ("ora01555", "ORA-01555: snapshot too old"),
        ("01555", "ORA-01555: snapshot too old"),
        ("CVE-2024-23113", "affected by cve-2024-23113."),
        ("cve 2024", "CVE-2024-23113"),
        ("kube_pod_info", "sum(kube_pod_info)"),
        ("kube pod info", "sum(kube_pod_info)"),
        ("10.0.12.7", "host 10.0.12.7:8080 is down"),
        ("1.27.3", "upgrade to 1.27.3"),
        ("v1.27.3", "upgrade to v1.27.3"),
        ("server", "the server's disk"),
        ("server", "the server’s disk"),
        ("servers", "the server's disk"),
        ("don't", "don’t"),
        ("restarting", "restarted"),
        ("ＫｕｂｅＰｏｄ", "KubePod"),
        ("ｅｒｒｏｒ　５０３", "error 503"),
        ("STRASSE", "straße"),
        ("vSphere", "vsphere"),
        ("IPv4", "ipv4"),
        ("PVs", "pvs"),
        ("http server", "HTTPServer"),
        (
            "arn:aws:lambda:eu-central-1:123456789012:function:ingest",
            "arn:aws:lambda:eu-central-1:123456789012:function:ingest",
        ),
        ("123456789012", "arn:aws:lambda:eu-central-1:123456789012:function:ingest"),
        ("eu-central-1", "arn:aws:lambda:eu-central-1:123456789012:function:ingest"),
        ("汉字", "关于 汉字 的"),
        ("naïve", "nai\u0308ve"),
    ],
)
def test_a_question_finds_the_text(question: str, document: str) -> None:
    assert found_by(question, document)


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("ORA-01555", "ORA-01556"),
        ("CVE-2024-23113", "CVE-2024-23112"),
        ("10.0.12.7", "10.0.12.70"),
        ("10.0.12.7", "10 0 12 7"),
        ("7", "10.0.12.7"),
        ("1.27.3", "1.27.4"),
        ("hook.player.connected", "hook.player.disconnected"),
        ("kubepodcrashlooping", "kube pod crash looping"),
    ],
)
def test_a_question_does_not_find_another_thing(question: str, document: str) -> None:
    assert not found_by(question, document)


def test_an_address_is_one_term() -> None:
    assert analyze("10.0.12.7") == ["10.0.12.7"]


def test_separators_of_numbers_do_not_matter() -> None:
    assert analyze("2024-03-01") == analyze("2024.03.01")


def test_single_letters_go_with_their_neighbours() -> None:
    assert analyze("vSphere") == ["vsphere"]
    assert analyze("IPv4") == ["ipv4"]


def test_terms_come_in_the_order_of_the_text() -> None:
    assert analyze("disk full, restart node") == ["disk", "full", "restart", "node"]


def test_a_repeated_word_is_a_repeated_term() -> None:
    assert analyze("retry retry") == ["retri", "retri"]


# -- words -----------------------------------------------------------------------------------------------------------


def test_stop_words_are_left_out() -> None:
    assert analyze("What is the cause of it and why is it not THE disk") == ["what", "caus", "whi", "disk"]


@pytest.mark.parametrize("text", ["", " \n\t", "the of and", "!!! --- ...", "_", "'", "😀", "\ud800"])
def test_a_text_without_words_has_no_terms(text: str) -> None:
    assert analyze(text) == []


@calm
@given(st.text(st.characters()))
def test_a_term_is_never_empty_a_stop_word_or_broken_by_white_space(text: str) -> None:
    for term in analyze(text):
        assert term
        assert term not in STOP_WORDS["en"]
        assert term.split() == [term]


@calm
@given(st.text(st.sampled_from("abAB.-_'’19 é")))
def test_the_same_text_always_has_the_same_terms(text: str) -> None:
    first = analyze(text)
    analyzer._cached_words_of.cache_clear()
    assert analyze(text) == first


def test_threads_may_share_the_analyzer() -> None:
    words = [f"restartingNode{number}Quickly-as.fastly" for number in range(400)]
    expected = [analyze(word) for word in words]
    analyzer._cached_words_of.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(analyze, words)) == expected


# -- long runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["a", "A", "aB", "Ab", "A1", "a.", "A-", "a_", "a'", "1.", "é", "s's", "ABc", "汉"])
@pytest.mark.timeout(20)
def test_a_very_long_run_is_analysed_in_time_that_grows_with_its_length(part: str) -> None:
    assert analyze(part * (65_536 // len(part)))


def test_a_long_run_is_not_kept_in_memory() -> None:
    analyzer._cached_words_of.cache_clear()
    analyze("x" * 65 + " " + "Ab" * 1000)
    assert analyzer._cached_words_of.cache_info().currsize == 0
    analyze("x" * 64)
    assert analyzer._cached_words_of.cache_info().currsize == 1


def test_a_long_term_is_cut_alike_in_questions_and_documents() -> None:
    assert [len(term) for term in query_terms("x" * 65_536)] == [MAX_TERM_LENGTH]


# -- for embedding models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "apart"),
    [
        ("KubePod", "Kube Pod"),
        ("see moduleControllerCreate!", "see module Controller Create!"),
        ("HTTPServer", "HTTP Server"),
        ("hook.player.connected", "hook.player.connected"),
        ("plain words, ORA-01555", "plain words, ORA-01555"),
        ("IPv4 vSphere PVs", "IPv4 vSphere PVs"),
        ("", ""),
    ],
)
def test_camel_case_is_taken_apart_and_the_rest_stays(text: str, apart: str) -> None:
    assert split_identifiers(text) == apart


@calm
@given(st.text(st.characters()))
def test_taking_identifiers_apart_only_adds_spaces(text: str) -> None:
    assert split_identifiers(text).replace(" ", "") == text.replace(" ", "")
