"""Languages of texts, and glossaries: entries, inflected forms, compounds, and the bundled files."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.text import glossary
from opx.text.analyzer import STEMMERS, STOP_WORDS, folded
from opx.text.glossary import Glossary, glossary_of
from opx.text.languages import Detected, detect_language, document_languages, question_languages

GERMAN = Glossary(
    "de",
    """
    # of operations
    datenbank = database
    festplatte = disk
    knoten = node
    nicht erreichbar = unreachable
    prüfen = check
    speicher = storage, memory   # two words
    verbinden = connect
    verbindung = connection
    überlastet = overloaded
    voll =
    = nothing
    no entry
    """.splitlines(),
)
SPANISH = Glossary("es", ["librería = library", "mensaje = message", "base de datos = database"])


@pytest.mark.parametrize(
    ("words", "english"),
    [
        (["festplatte"], "disk"),
        (["Festplatten"], "disk"),
        (["FESTPLATTE"], "disk"),
        (["nicht", "erreichbar"], "unreachable"),
        (["erreichbar"], ""),
        (["Speicher"], "storage memory"),
        (["Verbindungen"], "connection"),
        (["verbunden"], ""),
        (["uberlastet"], "overloaded"),
        (["ueberlastet"], "overloaded"),
        (["pruefen"], "check"),
        (["voll"], ""),
        (["festplatte", "festplatte", "festplatte", "festplatte"], ""),
        ([], ""),
    ],
)
def test_words_are_found_in_every_form_of_them(words: list[str], english: str) -> None:
    assert GERMAN.english(words) == english


@pytest.mark.parametrize(
    ("word", "english"),
    [
        ("festplattenspeicher", "disk storage memory"),
        ("Datenbankverbindung", "database connection"),
        ("Datenbankverbindungen", "database connection"),
        ("datenbankknotenspeicher", "database node storage memory"),
        ("datenbanktabelle", ""),
    ],
)
def test_german_compounds_are_taken_apart(word: str, english: str) -> None:
    assert GERMAN.english([word]) == english


def test_compounds_with_a_part_that_is_not_known_are_offered_with_that_part() -> None:
    assert ("cluster", "cluster node") in list(GERMAN.with_rests("Clusterknoten"))
    assert ("ausfall", "database ausfall") in list(GERMAN.with_rests("datenbankausfall"))
    assert list(GERMAN.with_rests("knoten")) == []


def test_prefixes_of_verbs_are_no_parts_of_compounds() -> None:
    assert list(GERMAN.with_rests("nachprüfen")) == []


def test_other_languages_have_no_compounds() -> None:
    assert SPANISH.english(["mensajemensaje"]) == ""
    assert list(SPANISH.with_rests("supermensaje")) == []


def test_phrases_have_their_small_words() -> None:
    assert SPANISH.english(["bases", "de", "datos"]) == "database"
    assert SPANISH.english(["bases", "y", "datos"]) == ""


def test_an_entry_that_is_much_longer_is_another_word() -> None:
    assert SPANISH.english(["libre"]) == ""
    assert SPANISH.english(["librerías"]) == "library"


@pytest.mark.parametrize("word", ["", "💥", "a" * 10_000, "knoten" * 1_000, "knoten" * 10, "日本語"])
def test_any_string_can_be_looked_up(word: str) -> None:
    GERMAN.english([word])
    list(GERMAN.with_rests(word))


def test_a_language_without_a_file_has_an_empty_glossary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(glossary, "FOLDER", tmp_path)
    glossary_of.cache_clear()
    assert glossary_of("de").english(["festplatte"]) == ""
    glossary_of.cache_clear()


@pytest.mark.parametrize("language", sorted(set(STEMMERS) - {"en"}))
def test_bundled_glossaries_are_found(language: str) -> None:
    known = {"de": "festplatten", "es": "conexiones", "fr": "disques", "it": "nodi", "pt": "mensagens"}
    assert glossary_of(language).english([known[language]])


GLOSSARIES = files("opx.text").joinpath("glossaries")
LANGUAGES = sorted(set(STEMMERS) - {"en"})

# Letters, which a hyphen or an apostrophe may join; one to three words.
WORDS = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*(?: [^\W\d_]+(?:[-'][^\W\d_]+)*){0,2}")
ENGLISH = re.compile(r"[a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*){0,2}")


def lines_of(language: str) -> list[str]:
    return GLOSSARIES.joinpath(f"{language}.txt").read_text(encoding="utf-8").splitlines()


def entries_of(language: str) -> list[tuple[str, str]]:
    pairs = [line.split(" = ") for line in lines_of(language)]
    return [(word, english) for word, english in pairs]


def test_each_stemmed_language_but_english_has_a_glossary() -> None:
    assert sorted(file.name for file in GLOSSARIES.iterdir()) == [f"{language}.txt" for language in LANGUAGES]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_line_is_words_and_their_english(language: str) -> None:
    lines = lines_of(language)
    assert len(lines) >= 400
    assert [line for line in lines if line.count(" = ") != 1] == []
    entries = entries_of(language)
    assert [word for word, _ in entries if word != word.lower() or not WORDS.fullmatch(word)] == []
    assert [(word, english) for word, english in entries if not ENGLISH.fullmatch(english)] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_are_sorted_and_named_once(language: str) -> None:
    listed = [word for word, _ in entries_of(language)]
    assert listed == sorted(set(listed))


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_without_their_accents_have_one_translation(language: str) -> None:
    by_plain: dict[str, set[str]] = {}
    for word, english in entries_of(language):
        by_plain.setdefault(folded(word), set()).add(english)
    assert {word: found for word, found in by_plain.items() if len(found) > 1} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_stop_word_is_translated(language: str) -> None:
    stop_words = {folded(word) for word in STOP_WORDS[language]}
    assert [word for word, _ in entries_of(language) if folded(word) in stop_words] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_translation_is_of_stop_words_alone(language: str) -> None:
    stop_words = STOP_WORDS["en"]
    assert [word for word, english in entries_of(language) if set(english.split()) <= stop_words] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_that_english_has_too_are_left_out(language: str) -> None:
    assert [word for word, english in entries_of(language) if folded(word) == english] == []


calm = settings(deadline=None)  # a busy machine is no failure

RUNBOOKS = {
    "en": "The disk of the server is full. Delete the old logs and restart the service with `systemctl restart app`.",
    "de": "Die Festplatte des Servers ist voll. Löschen Sie alte Protokolle und starten Sie den Dienst neu.",
    "fr": "Le disque du serveur est plein. Supprimez les vieux journaux puis redémarrez le service.",
    "es": "El disco del servidor está lleno. Borre los registros antiguos y reinicie el servicio.",
    "it": "Il disco del server è pieno. Cancellate i vecchi registri e riavviate il servizio.",
    "pt": "O disco do servidor está cheio. Apague os registos antigos e reinicie o serviço.",
    "nl": "De schijf van de server is vol. Verwijder de oude logbestanden en start het programma opnieuw.",
    "ja": "サーバーのディスクが一杯です。古いログを削除して、サービスを再起動してください。",
    "zh": "服务器的磁盘已满。请删除旧日志，然后重启服务。",
    "ko": "서버의 디스크가 가득 찼습니다. 오래된 로그를 삭제하고 서비스를 다시 시작하십시오.",
    "ru": "Диск сервера заполнен. Удалите старые журналы и перезапустите службу.",
}
NOISE = (
    "`kubectl -n payments logs deploy/api-7f9` https://wiki.example.org/the/of/and KubePodCrashLooping v1.27.3 --all "
)


@pytest.mark.parametrize("language", RUNBOOKS)
def test_a_runbooks_language_is_detected(language: str) -> None:
    assert detect_language(RUNBOOKS[language]) == Detected(language, certain=True)


@pytest.mark.parametrize("language", RUNBOOKS)
def test_names_commands_and_addresses_do_not_mislead(language: str) -> None:
    assert detect_language(NOISE * 5 + RUNBOOKS[language]) == Detected(language, certain=True)


@pytest.mark.parametrize("fence", ["```", "~~~"])
def test_blocks_of_code_do_not_count(fence: str) -> None:
    code = f"{fence}\nthe server is not up and it has to be restarted\n{fence}\n" * 9
    assert detect_language(code + RUNBOOKS["de"]).language == "de"


@pytest.mark.parametrize(
    "text",
    ["", "\n", "api-7f9", "KubePodCrashLooping", "503", "```\nder die das und nicht\n```", "ERROR OOMKilled", "😀"],
)
def test_a_text_without_words_is_taken_for_english(text: str) -> None:
    assert detect_language(text) == Detected("en", certain=False)


def test_english_with_a_foreign_word_stays_english() -> None:
    assert (
        detect_language("The alert says `Festplatte voll`: the disk of the German mail server is full.").language
        == "en"
    )


@pytest.mark.parametrize(
    ("question", "languages"),
    [
        ("Festplatte voll", ("de", "en")),
        ("disco lleno", ("es", "en")),
        ("memoria llena", ("es", "en")),
        ("mémoire saturée", ("fr", "en")),
        ("certificato scaduto", ("it", "en")),
        ("fila parada", ("pt", "en")),
        ("certificado expirado", ("es", "pt", "en")),
        ("磁盘已满", ("zh", "en")),
        ("ディスクが一杯", ("ja", "en")),
        ("디스크 가득", ("ko", "en")),
        ("сервер не отвечает", ("ru", "en")),
        ("warum startet KubePod nicht", ("de", "en")),
    ],
)
def test_a_question_has_its_language_first_and_english_last(question: str, languages: tuple[str, ...]) -> None:
    assert question_languages(question) == languages


@pytest.mark.parametrize(
    "question",
    [
        "disk full",
        "pod die",
        "server error 503",
        "restart node",
        "no space left on device",
        "what does KubePodCrashLooping mean",
        "certificate expired",
        "replica delay",
        "database on fire",
        "hook.player.connected",
        "TODO",
        "ORA-01555",
        "",
    ],
)
def test_english_and_unknown_questions_are_english_alone(question: str) -> None:
    assert question_languages(question) == ("en",)


def test_a_language_that_is_known_from_elsewhere_is_the_first() -> None:
    assert question_languages("disk full", "pt-BR") == ("pt", "en")
    assert question_languages("disk full", "en") == ("en",)


@pytest.mark.parametrize(
    ("language", "analysed_in"),
    [("de", ("de", "en")), ("pt-br", ("pt", "en")), ("en", ("en",)), ("ja", ("en",)), ("xx", ("en",)), ("", ("en",))],
)
def test_a_document_is_analysed_in_its_language_and_in_english(language: str, analysed_in: tuple[str, ...]) -> None:
    assert document_languages(language) == analysed_in


@calm
@given(st.text(st.characters()))
def test_any_text_has_a_language(text: str) -> None:
    assert detect_language(text) == detect_language(text)
    languages = question_languages(text)
    assert languages[-1] == "en"
    assert len(set(languages)) == len(languages) <= 4


@pytest.mark.parametrize(
    "part", ["a", "`", "<", "a.", "~~~\n", "```\n", " ", "é", "漢", "Aa", "'", "l'", "x:", "a@", "der "]
)
@pytest.mark.timeout(10)
def test_a_very_long_text_is_read_in_time(part: str) -> None:
    assert detect_language(part * 1_000_000)
