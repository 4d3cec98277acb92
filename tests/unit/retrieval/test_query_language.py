"""Parsing of questions: operators, plain words, and that a question never widens a search."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.domain.ids import day_number
from opx.domain.knowledge import KnowledgeModel
from opx.domain.queries import QueryConfig
from opx.ports import SearchFilter
from opx.retrieval.operators import FILTERS, MAX_OPERATORS
from opx.retrieval.query_language import NO_POSITIVE_WORD, NO_WORDS, PASTED, Question, read_question
from opx.runtime.knowledge_file import load_knowledge
from opx.text.fields import query_terms

KNOWLEDGE: KnowledgeModel = load_knowledge()
EVERYTHING = QueryConfig(include_internet=True, tiers=("internal", "specialized", "internet"))

PASTED_LINES = r"""
2026-11-22T02:14:00 level=error msg="connection refused" service="checkout" host=web-1
Nov 22 02:14:00 web-01 sshd[1234]: Failed password for "root" from 10.0.0.1 port 22 -preauth
ERROR: could not open relation "users" -check
[ERROR] 02:14 failed "x" -retry
<34>1 2003-10-11T22:14:15.003Z mymachine su - ID47 - "su root" failed
127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200
E1122 02:14:00.123456 1 reflector.go:138] Failed to watch *v1.Pod: "forbidden" -foo
Warning  BackOff  2m (x5 over 3m)  kubelet  Back-off restarting failed container "web" in pod
Failed to pull image "registry/x": rpc error: code = Unknown desc = "denied": not found
Error response from daemon: conflict: unable to remove repository reference "x"
Unable to connect to the server: dial tcp: lookup "api" on 10.0.0.1:53: no such host
nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use) "x"
ORA-12154: TNS:could not resolve the connect identifier "specified"
at com.foo.Bar.baz(Bar.java:42) Caused by: java.lang.NullPointerException: "x" is null
Traceback (most recent call last): File "/a/b.py", line 3, in "module"
Exception in thread "main" java.lang.OutOfMemoryError: Java heap space
{"level":"error","msg":"disk full","service":"checkout","tag":"x"}
{"level": "error", "msg": "disk full"}
key="value" -other
name: "checkout"
service: "x"
sum by (pod) (rate(errors_total{namespace="prod", tier=~"web|api"}[5m])) -rate(other[5m])
SELECT * FROM users WHERE name = "bob" -- comment
java -Xmx4g -jar app.jar -verbose
java -XX:+UseG1GC -Dfoo=bar -server Main
/usr/bin/java -jar "my app.jar"
kubectl get pods --all-namespaces -owide
kubectl logs -f web-1 -container app
terraform apply -auto-approve -target module.x
openssl s_client -connect host:443 -servername host -showcerts
find / -name "*.log" -mtime +5 -exec rm {} \;
grep -rn "connection refused" /var/log
tar -xzf file.tgz -C /opt
ps -ef | grep "java"
mysql -uroot -psecret -e "show processlist"
curl -sSL -H "Content-Type: application/json" https://x -d '{"a": 1}'
Get-ChildItem -Path C:\Windows -Recurse -Filter "*.log"
C:\Windows\System32\svchost.exe -service
Get-Service -DisplayName Spooler
kill -HUP 1234
go test -race ./...
if [ -f "$x" ]; then echo "y"; fi
- -foo
disk - dashes in prose - are fine
rollback failed -- what now
https://wiki.example.com/x?tag:foo&title:bar
http://tag:8080/x
foo: bar
-kafka disk full
-5 degrees
image:tag localhost:8080 std::after::x
""".strip().splitlines()


def read(text: str, config: QueryConfig = EVERYTHING) -> Question:
    return read_question(text, config, KNOWLEDGE)


def day(text: str) -> int:
    number = day_number(text)
    assert number is not None
    return number


class TestOperators:
    def test_question_without_operators_is_searched_as_it_is(self) -> None:
        question = read("  how do cronjobs\nwork?  ")
        assert question == Question("  how do cronjobs\nwork?  ")
        assert not question.narrows

    def test_phrase_is_required_and_its_words_are_searched(self) -> None:
        question = read('why "connection refused" after failover')
        assert question.phrases == ("connection refused",)
        assert question.text == "why connection refused after failover"
        assert question.notes == ()

    @pytest.mark.parametrize(
        ("text", "excluded", "words"),
        [
            ("disk full -kafka", ("kafka",), "disk full"),
            ("disk -kafka full -kube-proxy", ("kafka", "kube-proxy"), "disk full"),
            ('disk full -"node local dns"', ("node local dns",), "disk full"),
            ("java heap -tomcat", ("tomcat",), "java heap"),
            ("docker disk full -swarm?", ("swarm",), "docker disk full"),
            ("mysql replication lag -Aurora", ("Aurora",), "mysql replication lag"),
            ("find runbook -größe", ("größe",), "find runbook"),
        ],
    )
    def test_dash_before_a_word_excludes_it(self, text: str, excluded: tuple[str, ...], words: str) -> None:
        question = read(text)
        assert (question.excluded, question.text) == (excluded, words)

    def test_filters_are_taken_out_of_the_words(self) -> None:
        question = read('lag tag:kafka service:"check out" category:runbooks tier:specialized title:postmortem why')
        assert question.text == "lag why"
        assert question.tags[0] == "kafka"
        assert question.resources[0] == "check out"
        assert question.categories == ("runbooks/architecture", "runbooks/procedures")
        assert question.tiers == ("specialized",)
        assert question.title == ("postmortem",)

    @pytest.mark.parametrize(
        ("text", "first", "end"),
        [
            ("x after:2026-03-31", day("2026-03-31"), None),
            ("x after:2026-3", day("2026-03-01"), None),
            ("x before:2026", None, day("2026-01-01")),
            ("x after:2025 after:2026-02 before:2026-04 before:2026-03-01", day("2026-02-01"), day("2026-03-01")),
        ],
    )
    def test_dates_are_days_months_or_years(self, text: str, first: int | None, end: int | None) -> None:
        question = read(text)
        assert (question.updated_from, question.updated_before, question.text) == (first, end, "x")

    def test_several_of_one_kind_are_alternatives(self) -> None:
        assert read("x tag:a tag:b tag:a").tags == ("a", "A", "b", "B")
        assert read("x tier:internal tier:internet").tiers == ("internal", "internet")

    def test_tags_and_services_are_looked_for_in_the_usual_cases(self) -> None:
        question = read("x Tag:kafka SERVICE:WebShop")
        assert question.tags == ("kafka", "Kafka", "KAFKA")
        assert question.resources == ("WebShop", "webshop", "Webshop", "WEBSHOP")

    def test_end_of_a_sentence_is_no_part_of_a_value(self) -> None:
        question = read("lag (tag:kafka), or tag:redis? before:2026-01.")
        assert {"kafka", "redis"} < set(question.tags)
        assert question.updated_before == day("2026-01-01")

    def test_filters_alone_search_for_their_values(self) -> None:
        assert read("tag:kafka service:web tier:internal").text == "kafka web"
        assert read('title:"disk full"').text == "disk full"

    def test_bounds_alone_search_for_nothing_with_a_note(self) -> None:
        question = read("after:2026")
        assert (question.text, question.notes) == ("", (NO_WORDS,))

    def test_scope_can_not_be_named(self) -> None:
        question = read("scope:acme client:other project:web disk")
        assert question == Question("scope:acme client:other project:web disk")

    def test_plain_question_is_words_and_nothing_else(self) -> None:
        text = '"connection refused" -kafka tag:x'
        question = read(text, QueryConfig(plain=True))
        assert (question.text, question.plain, question.narrows) == (text, True, False)


class TestOtherWritings:
    @pytest.mark.parametrize("quoted", ["“disk full”", "„disk full“", "«disk full»", "＂disk full＂"])
    def test_typographic_and_wide_quotes_are_quotes(self, quoted: str) -> None:
        assert read(f"why {quoted}").phrases == ("disk full",)

    def test_wide_characters_are_read_as_plain_ones(self) -> None:
        question = read("disk ｔａｇ：kafka －redis")
        assert (question.tags[0], question.excluded, question.text) == ("kafka", ("redis",), "disk")

    @pytest.mark.parametrize("unseen", ["\u200b", "\u200d", "\ufeff", "\u202e", "\u2066", "\u00ad", "\U000e0041"])
    def test_unseen_characters_change_nothing(self, unseen: str) -> None:
        question = read(f"di{unseen}sk t{unseen}ag:{unseen}kafka -{unseen}redis")
        assert (question.text, question.tags[0], question.excluded) == ("disk", "kafka", ("redis",))

    def test_joiners_that_a_writing_needs_stay(self) -> None:
        assert read("می‌خواهم tag:x").text == "می‌خواهم"

    def test_dashes_of_typographers_exclude_nothing(self) -> None:
        assert read("disk –full —log").excluded == ()

    def test_combining_marks_are_composed(self) -> None:
        assert read("x tag:cafe\u0301").tags[0] == "café"


class TestPasted:
    @pytest.mark.parametrize(
        "text",
        [
            'etcd cluster "etcd": members are down (33).',
            'Pod payments/web-1 (app) is in waiting state (reason: "CrashLoopBackOff") on cluster prod.',
            'A node became unhealthy with a flood of "no space left on device" messages in its logs since noon',
        ],
    )
    def test_quotations_in_running_text_are_words(self, text: str) -> None:
        question = read(text)
        assert question.phrases == ()
        assert question.text == text

    def test_a_filter_at_the_end_of_running_text_counts(self) -> None:
        question = read('etcd cluster "etcd": members are down. tier:internal')
        assert (question.tiers, question.phrases) == (("internal",), ())

    def test_a_short_question_with_a_phrase_requires_the_phrase(self) -> None:
        assert read('how do I fix "connection refused" on the gateway?').phrases == ("connection refused",)

    @pytest.mark.parametrize("line", PASTED_LINES)
    def test_is_searched_as_words(self, line: str) -> None:
        question = read(line)
        assert question.text == line.strip()
        assert not question.narrows

    def test_filters_before_and_after_it_are_read(self) -> None:
        log = '2026-11-22T02:14:00 level=error tag:x msg="refused" -check'
        question = read(f"tag:kafka after:2026 {log} service:web")
        assert question.tags[0] == "kafka"
        assert question.resources[0] == "web"
        assert question.updated_from == day("2026-01-01")
        assert question.text == log
        assert question.pasted
        assert PASTED in question.notes

    def test_quotation_from_a_log_is_a_phrase(self) -> None:
        assert read('what does "ERROR: deadlock detected" mean').phrases == ("ERROR: deadlock detected",)

    def test_dash_after_a_command_is_an_option_unless_quoted(self) -> None:
        assert read("why does java -jar fail").excluded == ()
        assert read('why does java -"jar" fail').excluded == ("jar",)


class TestMalformed:
    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ('why "connection refused', "not closed"),
            ('x tag:"kafka y', "not closed"),
            ("x tag: y", "needs a value"),
            ("x category:nonsense", "unknown category"),
            ("x tier:gold", "unknown tier"),
            ("x before:2026-13", "not a day"),
            ("x after:yesterday", "not a day"),
            ("x after:0000", "not a day"),
            ("x title:the", "no word in it"),
            ("x title:?", "needs a value"),
            ('x "..."', "no word"),
            (f'x "{"long " * 80}"', "at most"),
            ("x -vm", "so short"),
            ("x -tag:kafka", "can be excluded"),
            ("x -the", "everywhere"),
            ('x -"unclosed', "not closed"),
        ],
    )
    def test_is_searched_as_words_with_a_note(self, text: str, why: str) -> None:
        question = read(text)
        assert set(query_terms(question.text)) == set(query_terms(text))
        assert any(why in note for note in question.notes)

    def test_exclusions_alone_are_searched_for(self) -> None:
        question = read("tag:kafka -redis -mysql")
        assert (question.excluded, question.text) == ((), "-redis -mysql")
        assert NO_POSITIVE_WORD in question.notes

    def test_only_so_many_operators_are_read(self) -> None:
        question = read("x " + " ".join(f"tag:t{n}" for n in range(1_000)))
        assert len(question.tags) == 2 * MAX_OPERATORS
        assert f"tag:t{MAX_OPERATORS}" in question.text
        assert len(question.notes) == 1

    def test_notes_are_few(self) -> None:
        question = read("x " + "tier:gold " * MAX_OPERATORS)
        assert len(question.notes) < 10
        assert str(question.notes[-1]).startswith("and ")


class TestContradictions:
    @pytest.mark.parametrize(
        ("text", "config"),
        [
            ("x tier:internet", QueryConfig()),
            ("x tier:specialized", QueryConfig(tiers=("internal",))),
            ("x category:postmortems", QueryConfig(categories=("runbooks",))),
            ("x after:2026 before:2025", QueryConfig()),
            ("x after:2026 before:2026-01-01", QueryConfig()),
            ("x after:2026-03", QueryConfig(updated_before="2026-03-01")),
            ("x before:2026", QueryConfig(updated_from="2026-01-01")),
        ],
    )
    def test_filters_that_leave_nothing_make_it_impossible(self, text: str, config: QueryConfig) -> None:
        question = read(text, config)
        assert question.impossible
        assert question.narrowed(SearchFilter(("global",))) is None
        assert question.notes[0].startswith("nothing can be found")

    def test_tier_that_is_not_searched_is_no_harm_beside_one_that_is(self) -> None:
        question = read("x tier:internet tier:internal", QueryConfig())
        assert not question.impossible
        narrowed = question.narrowed(SearchFilter(("global",), tiers=("internal", "specialized")))
        assert narrowed
        assert narrowed.tiers == ("internal",)

    @pytest.mark.parametrize("text", ['a "disk full" -disk', "a title:disks -disk", 'a "the disk full" -"disk full"'])
    def test_exclusion_of_what_is_required_is_left_out(self, text: str) -> None:
        question = read(text)
        assert question.excluded == ()
        assert "the exclusion was ignored" in question.notes[0]


_values = st.sampled_from(("a", "b", "c", "Kafka"))
_days = st.dates(date(1960, 1, 1), date(2030, 1, 1))
_parts = st.one_of(
    st.sampled_from(("disk", "full", "-kafka", '"disk full"', "tier:internal", "tier:internet", "category:runbooks")),
    st.sampled_from(("category:postmortems", "category:nope", '"', "-", "tag:", "title:disk", "--x", 'k="v"')),
    st.builds("{}:{}".format, st.sampled_from(("tag", "service")), _values),
    st.builds("{}:{}".format, st.sampled_from(("before", "after")), _days),
)
_questions = st.lists(_parts, max_size=12).map(" ".join)
_fragments = st.sampled_from(
    ('"', "-", ":", "tag:", "title:", "before:2026", "“", "\u200b", "\n", " ", "=", "{", "'", "\ud800")
)
_texts = st.lists(st.one_of(st.text(max_size=8), _fragments), max_size=30).map("".join)


class TestProperties:
    @settings(max_examples=200, deadline=None)
    @given(text=_texts)
    def test_any_text_can_be_read(self, text: str) -> None:
        question = read(text)
        question.narrowed(SearchFilter(("global",)))
        question.matches(text, (text,), text)
        assert question.relaxed().phrases == ()
        assert len(question.understood) < 20

    @settings(max_examples=100, deadline=None)
    @given(text=_questions)
    def test_no_word_is_lost(self, text: str) -> None:
        """Every word is searched for, excluded, or part of a filter."""
        question = read(text)
        filters = [part for part in text.split() if part.partition(":")[0] in FILTERS]
        kept = [question.text, *question.excluded, *filters]
        assert set(query_terms(text)) <= set(query_terms(" ".join(kept)))

    @settings(max_examples=100, deadline=None)
    @given(
        text=_questions,
        tags=st.sets(_values, max_size=2),
        tiers=st.sampled_from((("internal",), ("internal", "specialized"))),
    )
    def test_nothing_passes_that_would_not_pass_without_the_question(
        self, text: str, tags: set[str], tiers: tuple[str, ...]
    ) -> None:
        where = SearchFilter(("client:acme",), tiers=tiers, tags=tuple(tags), updated_from=day("2000-01-01"))
        narrowed = read(text, QueryConfig(tiers=tiers, tags=tuple(tags), updated_from="2000-01-01")).narrowed(where)
        if narrowed is None:
            return
        assert narrowed.scopes == where.scopes
        assert set(narrowed.tiers) <= set(tiers)
        assert narrowed.tiers
        assert not tags or set(narrowed.tags) == tags
        assert (narrowed.updated_from or 0) >= day("2000-01-01")

    @settings(max_examples=50, deadline=None)
    @given(day_=_days)
    def test_day_is_the_day_that_was_written(self, day_: date) -> None:
        assert read(f"x after:{day_}").updated_from == (day_ - date(1970, 1, 1)) // timedelta(days=1)
