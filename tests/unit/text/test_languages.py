"""Detection of the language of documents and questions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.text.languages import Detected, detect_language, document_languages, question_languages

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
