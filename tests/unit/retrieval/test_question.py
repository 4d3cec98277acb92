"""Questions: what matches them, identifiers in them, and alerts that are pasted as one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.ports import SearchFilter
from opx.retrieval.assembly import QuestionTerms
from opx.retrieval.query_language import parse_query, pasted_alert
from opx.retrieval.question import MAX_GROUPS, MAX_IDENTIFIERS, Question, identifiers, required_groups, whole_terms
from opx.text.fields import query_terms

GLOBAL = SearchFilter(("global",))


def has(phrase: str, content: str, title: str = "", section: tuple[str, ...] = ()) -> bool:
    return Question("x", phrases=(phrase,)).matches(title, section, content)


class TestMatches:
    @pytest.mark.parametrize(
        "content",
        [
            "the connection refused by peer",
            "Connection\n   Refused",
            "**Connection** `refused`.",
            "(connection refused)",
            "x.connection refused",
            "ｃｏｎｎｅｃｔｉｏｎ refused",
            "con\u200bnection refused",
            "reconnection, connection refused",
        ],
    )
    def test_phrase_is_found_whatever_its_case_blanks_and_marks(self, content: str) -> None:
        assert has("connection refused", content)

    @pytest.mark.parametrize(
        "content", ["connection was refused", "refused connection", "connection refusedly", "reconnection refused", ""]
    )
    def test_phrase_is_whole_words_in_a_row(self, content: str) -> None:
        assert not has("connection refused", content)

    @pytest.mark.parametrize(
        ("phrase", "content"),
        [
            ("don't panic", "Don’t panic!"),
            ('say "x"', "say “x” now"),
            ("a-b", "a–b"),
            ("player.connected", "on hook.player.connected, do"),
            ("straße", "STRASSE 1"),
            ("障害", "大障害発生"),
            ("café", "cafe\u0301"),
        ],
    )
    def test_writings_of_the_same_are_the_same(self, phrase: str, content: str) -> None:
        assert has(phrase, content)

    def test_phrase_may_be_in_title_or_section_but_not_across(self) -> None:
        assert has("disk full", "x", title="Disk full on db")
        assert has("disk full", "x", section=("A", "Disk full"))
        assert not has("disk full", "full", title="disk")
        assert not has("disk full", "x", section=("disk", "full"))

    def test_excluded_words_and_phrases_are_nowhere(self) -> None:
        question = Question("x", excluded=("kafka", "disk full"))
        assert question.matches("t", (), "full disk of kafkaesque")
        assert not question.matches("Kafka", (), "x")
        assert not question.matches("t", ("Disk  full",), "x")

    def test_phrase_of_a_title_is_in_the_title(self) -> None:
        question = Question("x", title=("disk full", "postmortem"))
        assert question.matches("Postmortem: disk full", (), "x")
        assert not question.matches("full disk", (), "disk full postmortem")

    def test_everything_matches_a_question_of_words(self) -> None:
        question = Question("x")
        assert not question.exact
        assert question.matches("", (), "")


class TestTerms:
    @pytest.mark.parametrize(
        ("phrase", "text"),
        [
            ("player.connected", "see hook.player.connected"),
            ("modulecontrollercreate fails", "moduleControllerCreate fails"),
            ("kube-proxy", "a kube-proxy-7xk2 pod"),
            ("the connections are refused", "The connections are refused"),
            ("10.0.0.1", "from 10.0.0.1"),
            ("l'erreur don't disque", "l'erreur don't disque"),
            ("die Platte ist voll", "die Platte ist voll"),
            ("障害発生", "大障害発生中"),
            ("Über größe", "ÜBER GRÖSSE"),
        ],
    )
    @pytest.mark.parametrize("languages", [("en",), ("de", "en"), ("fr", "en")])
    def test_text_with_a_phrase_has_the_terms_required_of_it(
        self, phrase: str, text: str, languages: tuple[str, ...]
    ) -> None:
        assert has(phrase, text)
        there = set(query_terms(text, languages))
        assert required_groups(phrase)
        assert all(there.intersection(group) for group in required_groups(phrase))

    def test_excluded_compound_does_not_exclude_its_parts(self) -> None:
        assert not set(whole_terms("kube-proxy")) & set(query_terms("a proxy of kube"))
        assert set(whole_terms("kube-proxy")) <= set(query_terms("the KubeProxy"))

    def test_other_forms_of_an_excluded_word_are_excluded(self) -> None:
        assert set(whole_terms("restarts")) == set(query_terms("restarting"))

    def test_terms_become_part_of_the_filter(self) -> None:
        question = Question("x", phrases=("disk full",), title=("db",), excluded=("kafka", "not a word"))
        where = question.narrowed(GLOBAL)
        assert where
        assert where.required_terms == (("disk",), ("full",))
        assert where.title_terms == (("db",),)
        assert where.excluded_terms == ("kafka",)

    def test_filter_of_many_words_is_bounded(self) -> None:
        question = Question("x", phrases=(" ".join(f"w{n}" for n in range(300)),))
        where = question.narrowed(GLOBAL)
        assert where
        assert len(where.required_terms) == MAX_GROUPS


class TestNarrowing:
    def test_tags_and_services_hold_besides_those_of_the_caller(self) -> None:
        question = Question("x", tags=("a",), resources=("web",))
        where = question.narrowed(SearchFilter(("global",), tags=("b",), resources=("shop",)))
        assert where == SearchFilter(
            ("global",), tags=("b",), also_tags=("a",), resources=("shop",), also_resources=("web",)
        )
        assert question.narrowed(GLOBAL) == SearchFilter(("global",), tags=("a",), resources=("web",))

    def test_categories_and_tiers_are_those_of_both(self) -> None:
        question = Question("x", categories=("a", "b"), tiers=("internal",))
        where = question.narrowed(SearchFilter(("global",), categories=("b", "c"), tiers=("internet", "internal")))
        assert where == SearchFilter(("global",), categories=("b",), tiers=("internal",))

    def test_search_of_another_tier_is_left_out(self) -> None:
        assert Question("x", tiers=("internal",)).narrowed(SearchFilter(("global",), tiers=("specialized",))) is None

    def test_narrower_bounds_count(self) -> None:
        where = SearchFilter(("global",), updated_from=10, updated_before=20)
        narrowed = Question("x", updated_from=5, updated_before=15).narrowed(where)
        assert narrowed == SearchFilter(("global",), updated_from=10, updated_before=15)
        assert Question("x", updated_from=20).narrowed(where) is None


class TestExplanation:
    def test_relaxed_question_searches_for_the_words_with_a_note(self) -> None:
        relaxed = Question("disk full", phrases=("disk full",), excluded=("kafka",), notes=("before",)).relaxed()
        assert relaxed.phrases == ()
        assert relaxed.excluded == ("kafka",)
        assert relaxed.notes == ("before", 'no passage that came near has exactly "disk full": the words were searched')

    def test_empty_conditions_are_left_out(self) -> None:
        assert Question("disk").understood == {"text": "disk"}
        assert Question("disk", updated_from=0, tags=("a",)).understood == {
            "text": "disk",
            "tags": ["a"],
            "updatedFrom": "1970-01-01",
        }

    def test_long_question_is_cut(self) -> None:
        question = Question("long " * 2000, phrases=("p" * 300,) * 50)
        assert len(str(question.understood)) < 3000


class TestIdentifiers:
    @pytest.mark.parametrize(
        "word",
        """CVE-2024-3094 ORA-01555 E1234 0x80070005 moduleControllerCreate KubePodCrashLooping hook.player.connected
        kube-proxy snake_case_name arn:aws:s3:::bucket/key arn:aws:iam::123456789012:role/x 10.0.0.1 10.0.0.1:8080
        10.0.0.0/8 fe80::1 2001:db8::8a2e:370:7334 v1.28.3 1.28 /var/log/syslog ./run.sh ~/x/y C:\\Windows\\System32
        \\\\srv\\share https://x.y/z?q=1 eth0 OPX_HOME vSphere IPv4 i-0abcd1234ef p99 java.lang.NullPointerException
        std::vector node_cpu_seconds_total OOMKilled CrashLoopBackOff TASK-123 T1059.001 main.go:42 x86_64
        e3b0c44298fc1c149afbf4c8996fb92427ae41e4 ERR_CONNECTION_REFUSED nginx.conf out-of-memory EC2 s3""".split(),  # noqa: SIM905
    )
    def test_names_and_codes_are_recognised_within_a_sentence(self, word: str) -> None:
        assert identifiers(f'why does "{word}" (again) fail?') == (word,)

    @pytest.mark.parametrize(
        "text", ["disk full on the DISK", "why? ERROR again: done.", "2026 and 5 or 3%", "I don't know, e.g. this", ""]
    )
    def test_words_and_numbers_are_not(self, text: str) -> None:
        assert identifiers(text) == ()

    def test_status_of_http_is_one(self) -> None:
        assert identifiers("many HTTP 503 and http 5xx from here") == ("HTTP 503", "http 5xx")

    def test_there_are_only_so_many(self) -> None:
        assert len(identifiers(" ".join(f"name-{n}" for n in range(500)))) == MAX_IDENTIFIERS


# -- words of a question that a passage has, as replies name them


@pytest.mark.parametrize(
    ("question", "text", "expected"),
    [
        ("consumers restarting", "Restart the consumer.", ["restarting", "consumers"]),
        ("KafkaConsumerLagHigh", "The consumer lag of Kafka is high.", []),
        ("KafkaConsumerLagHigh lag", "KafkaConsumerLagHigh fires when the lag grows.", ["KafkaConsumerLagHigh", "lag"]),
        ("ORA-01652 tablespace", "ORA-01555: the undo tablespace is 01 full", ["tablespace"]),
    ],
)
def test_words_in_any_form_and_identifiers_as_they_are(question: str, text: str, expected: list[str]) -> None:
    assert QuestionTerms(question).words_in(text) == expected


NAME = "QueueHighWarning"
LABELS = {"namespace": "shop", "pod": "worker-7d9f"}
ALERTMANAGER = {
    "version": "4",
    "status": "firing",
    "commonLabels": {"alertname": NAME, **LABELS},
    "commonAnnotations": {"summary": "Messages pile up"},
    "alerts": [{"status": "firing", "labels": {"alertname": NAME, **LABELS}}],
}
CLOUDWATCH = {
    "AlarmName": "queue-depth-high",
    "NewStateValue": "ALARM",
    "NewStateReason": "Threshold crossed",
    "Trigger": {"MetricName": "Depth", "Dimensions": [{"name": "QueueName", "value": "orders-7d9f"}]},
}
MAIL = """[FIRING:1] QueueHighWarning (shop worker-7d9f)
Labels:
 - alertname = QueueHighWarning
 - namespace = shop
 - pod = worker-7d9f
Annotations:
 - summary = Messages pile up
"""


@pytest.mark.parametrize(
    "pasted",
    [
        json.dumps(ALERTMANAGER),
        json.dumps(ALERTMANAGER, indent=2),
        json.dumps([{"labels": {"alertname": NAME, **LABELS}, "annotations": {"summary": "Messages pile up"}}]),
        MAIL,
        '[FIRING:1] QueueHighWarning (namespace="shop", pod="worker-7d9f") Messages pile up',
        'QueueHighWarning{namespace="shop",pod="worker-7d9f"}\nMessages pile up',
        'QueueHighWarning (namespace="shop" pod="worker-7d9f")\nMessages pile up',
        "alertname=QueueHighWarning namespace=shop pod=worker-7d9f\nMessages pile up",
    ],
    ids=["JSON", "indented JSON", "list", "mail", "line", "braces", "brackets", "pairs"],
)
def test_name_and_text_are_the_question_and_labels_are_no_words_of_it(pasted: str) -> None:
    question = pasted_alert(pasted)
    assert question is not None
    assert (question.alert, question.identifiers) == (NAME, (NAME,))
    assert question.text.split() == [NAME, "Messages", "pile", "up"]
    assert question.about == ("worker-7d9f",)
    assert LABELS.items() <= question.labels.items()


def test_alarm_of_cloudwatch_has_its_dimensions_as_labels() -> None:
    question = pasted_alert(json.dumps(CLOUDWATCH))
    assert question is not None
    assert (question.alert, question.text) == ("queue-depth-high", "queue-depth-high\nThreshold crossed")
    assert question.about == ("orders-7d9f",)
    assert question.labels == {"MetricName": "Depth", "QueueName": "orders-7d9f"}


@pytest.mark.parametrize(
    "text",
    [
        'ts=2026-01-01T00:00:00Z level=error msg="queue full" queue=orders',
        'level=error component=notify msg="Notify failed" alertname=QueueHighWarning',
        '{"level": "error", "message": "queue full", "labels": {"app": "orders"}, "error": {"stack": "boom"}}',
        '{"time": "2026-01-01", "message": "request failed", "detail": {"code": 5}}',
        "awk '{print $1}' access.log",
        "kubectl get pods -o jsonpath={.items[*].metadata.name}",
        "print(sep='x')",
        'ValueError(message="queue full")',
        "Error (code=5) while reading the queue",
        'rate(http_requests_total{job="api"}[5m]) > 5',
        'http_requests_total{job="api"}',
        'QueueDepth{queue="orders"} 5000',
        "what does the label alertname=QueueHighWarning mean",
        "QueueHighWarning is firing",
        "",
    ],
)
def test_logs_code_and_sentences_are_no_alerts(text: str) -> None:
    assert pasted_alert(text) is None


@pytest.mark.parametrize("left", [1, 20, 100, 150])
def test_cut_json_is_searched_as_words(left: int) -> None:
    text = json.dumps(ALERTMANAGER)[:-left]
    assert pasted_alert(text) is None
    assert "QueueHighWarning" in parse_query(text, QueryConfig(), KnowledgeModel({}, "")).text


@pytest.mark.parametrize("name", ["", "  ", "?!", "x" * 4000])
def test_alert_without_a_name_that_can_be_searched_for_is_words(name: str) -> None:
    question = pasted_alert(json.dumps({"labels": {"alertname": name, "pod": "p"}}))
    assert question is None or len(question.alert) <= 500


def test_plain_question_is_no_alert() -> None:
    text = 'QueueHighWarning{namespace="shop"}'
    question = parse_query(text, QueryConfig(plain=True), KnowledgeModel({}, "")).question
    assert (question.alert, question.text) == ("", text)


def test_answer_names_the_parsed_alert() -> None:
    question = parse_query('QueueHighWarning{namespace="shop"}', QueryConfig(), KnowledgeModel({}, "")).question
    assert question.understood["alert"] == NAME
    assert question.understood["labels"] == {"namespace": "shop"}


PIECES = ("[FIRING:1]", NAME, "{", "}", "(", ")", 'a="b"', "alertname=", '"labels":', "[", "]", ",", "\n", " ", "💥")


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_whatever_looks_like_an_alert_can_be_read(text: str) -> None:
    question = parse_query(text, QueryConfig(), KnowledgeModel({}, "")).question
    assert len(question.alert) <= 500
    assert not question.alert or question.text.strip()


@pytest.mark.parametrize("alert", [ALERTMANAGER, CLOUDWATCH, ALERTMANAGER["alerts"]], ids=["alert", "alarm", "list"])
@pytest.mark.parametrize("form", ["{alert}\n {question}", "{question}\n{alert}"], ids=["behind", "before"])
def test_text_beside_json_is_part_of_the_question(alert: object, form: str) -> None:
    sent = json.dumps(alert, indent=1)
    alone, question = pasted_alert(sent), pasted_alert(form.format(alert=sent, question="may we restart the worker?"))
    assert alone is not None
    assert question is not None
    assert question.alert == alone.alert
    assert question.text.startswith(alone.text)
    assert question.text.endswith("\nmay we restart the worker?")


@pytest.mark.parametrize(
    "sent",
    [
        {"Type": "Notification", "Subject": "ALARM", "Message": json.dumps(CLOUDWATCH)},
        {"Records": [{"EventSource": "aws:sns", "Sns": {"Message": json.dumps(CLOUDWATCH)}}]},
    ],
    ids=["message", "event"],
)
def test_alarm_is_read_out_of_a_notification(sent: object) -> None:
    question = pasted_alert(json.dumps(sent))
    assert question is not None
    assert (question.alert, question.text) == ("queue-depth-high", "queue-depth-high\nThreshold crossed")
    assert question.about == ("orders-7d9f",)


@pytest.mark.parametrize("message", ["", "text", "[]", "{", None, 5])
def test_notification_without_an_alarm_is_none(message: object) -> None:
    assert pasted_alert(json.dumps({"Type": "Notification", "Message": message, "AlarmName": None})) is None


def test_of_several_alerts_the_others_are_named() -> None:
    others = [{"status": "firing", "labels": {"alertname": name}} for name in ("DiskFull", "NodeDown")]
    query = parse_query(
        json.dumps({**ALERTMANAGER, "alerts": [*ALERTMANAGER["alerts"], *others]}),
        QueryConfig(),
        KnowledgeModel({}, ""),
    )
    assert query.notes == ["also firing: DiskFull, NodeDown: ask for each"]


def test_long_notification_is_read_whole() -> None:
    many = [{"status": "firing", "labels": {"alertname": NAME, "pod": f"worker-{n}" * 20}} for n in range(100)]
    sent = json.dumps({"alerts": many, "commonAnnotations": {"summary": "Messages pile up"}})
    assert 10_000 < len(sent) < 100_000
    query = parse_query(sent, QueryConfig(), KnowledgeModel({}, ""))
    assert (query.question.alert, query.text) == (NAME, f"{NAME}\nMessages pile up")
    assert not any("only the first" in note for note in query.notes)
