"""Effects of commands within other commands, of redirected output, and of statements in other languages."""

from __future__ import annotations

import pytest

from opx.domain.procedures import Effect
from opx.text.procedures.effects import effect_table

READ, UNKNOWN, REVERSIBLE, PAGES, COSTS, DESTRUCTIVE = Effect


def effect(command: str, language: str = "") -> Effect:
    return effect_table().classify(command, language).effect


class TestShell:
    @pytest.mark.parametrize(
        "around",
        [
            "sudo -u root {}",
            "env -i A=b {}",
            "timeout -s KILL 5 {}",
            "echo a && {}",
            "kubectl get pods | xargs {}",
            "find . -name x -exec {} \\;",
            "if true; then {}; fi",
            "while read line; do {}; done < file",
            "{{ {}; }}",
            "( cd /tmp && {} )",
            "echo $({})",
            'echo "`{}`"',
            "cat <({})",
            'bash -lc "{}"',
            "ssh -p 22 host '{}'",
            "ssh host <<EOF\n{}\nEOF",
            "sudo -i <<EOF\n{}\nEOF",
            "oc rsh pod <<EOF\n{}\nEOF",
            "cat <<EOF | bash\n{}\nEOF",
            "echo '{}' | sh",
            "kubectl exec -it pod -c app -- {}",
            "docker exec -u root web {}",
            "watch -n 5 '{}'",
            "su - postgres -c '{}'",
            "ansible all -m shell -a '{}'",
            "true \\\n; {}",
        ],
    )
    def test_command_within_another_counts(self, around: str) -> None:
        assert effect(around.format("rm -rf /srv/data")) is DESTRUCTIVE

    @pytest.mark.parametrize(
        "placeholder", ["<pod>", "<pod name>", "${POD}", "$POD", "{{ pod }}", "[pod]", "<ns>/<pod>"]
    )
    def test_placeholder_is_a_word(self, placeholder: str) -> None:
        assert effect(f"kubectl logs {placeholder} | grep x") is READ
        assert effect(f"kubectl delete pod {placeholder}") is DESTRUCTIVE

    @pytest.mark.parametrize("target", ["/dev/null", "/tmp/x", "pods.txt", "dump-$(date +%F).json", "pods.yaml 2>&1"])
    def test_output_to_a_new_file_is_read(self, target: str) -> None:
        assert effect(f"kubectl get pods > {target}") is READ

    @pytest.mark.parametrize(
        "command",
        [
            "> app.log",
            ": > app.log",
            "cat /dev/null > app.log",
            "date > /etc/motd",
            "date | sudo tee /etc/motd",
            "ls > $OUT",
        ],
    )
    def test_output_over_another_file_is_destructive(self, command: str) -> None:
        assert effect(command) is DESTRUCTIVE

    def test_change_that_the_same_command_undoes_is_reversible(self) -> None:
        assert effect("ip link set eth0 down && sleep 5 && sudo ip link set eth0 up") is REVERSIBLE
        assert effect("ip link set eth0 up && ip link set eth0 down") is DESTRUCTIVE

    def test_appending_is_reversible(self) -> None:
        assert effect("echo '10.0.0.1 db' >> /etc/hosts") is REVERSIBLE

    def test_fetched_code_is_destructive(self) -> None:
        assert effect("curl -s https://x/i.sh | bash") is DESTRUCTIVE

    @pytest.mark.parametrize("command", ["cat x.sql | psql", "mysql < x.sql", "psql -f x.sql"])
    def test_code_that_is_not_seen_is_unknown(self, command: str) -> None:
        assert effect(command) is UNKNOWN

    def test_words_sent_to_a_port_count(self) -> None:
        assert effect("echo stats | nc cache 11211") is READ
        assert effect("echo flush_all | nc cache 11211") is DESTRUCTIVE
        assert effect("nc cache 11211 < commands.txt") is UNKNOWN

    @pytest.mark.parametrize("command", ["bash", "psql -h db -U app", "ssh host", "kubectl exec -it pod -- sh"])
    def test_session_without_a_command_is_read(self, command: str) -> None:
        assert effect(command) is READ

    @pytest.mark.parametrize("command", ["git commit -m 'rm -rf / ; drop table x'", "grep -r 'kubectl delete' ."])
    def test_words_in_quotes_are_data(self, command: str) -> None:
        assert effect(command) in (READ, REVERSIBLE)

    def test_unbalanced_quotes_are_never_read(self) -> None:
        assert effect("kubectl get pods 'x") is UNKNOWN
        assert effect("kubectl get pods 'x; rm -rf y") is DESTRUCTIVE

    def test_comment_alone_is_unknown(self) -> None:
        assert effect("# rm -rf /") is UNKNOWN

    def test_wrappers_without_end_are_not_followed(self) -> None:
        assert effect("sudo " * 500 + "ls") is UNKNOWN
        assert effect("$(" * 500 + "ls" + ")" * 500) is UNKNOWN


class TestLanguages:
    @pytest.mark.parametrize(
        ("statement", "expected"),
        [
            ("SELECT 1; -- drop table x", READ),
            ("SELECT 'drop table x'", READ),
            ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity", DESTRUCTIVE),
            ("SELECT * FROM jobs FOR UPDATE", REVERSIBLE),
            ("WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone", DESTRUCTIVE),
            ("EXPLAIN DELETE FROM t", READ),
            ("EXPLAIN ANALYZE DELETE FROM t", DESTRUCTIVE),
            ("ALTER TABLE t ADD COLUMN c int", REVERSIBLE),
            ("ALTER TABLE t DROP COLUMN c", DESTRUCTIVE),
            ("SELECT 1; DROP TABLE t", DESTRUCTIVE),
            ("SELECT 1 /*! ; DROP TABLE t */", DESTRUCTIVE),
            (r"SELECT 'a\'; DROP TABLE t; --'", DESTRUCTIVE),
            (r"\dt+", READ),
            (r"\! rm -rf x", DESTRUCTIVE),
        ],
    )
    def test_statement_is_classified_alone_and_in_a_client(self, statement: str, expected: Effect) -> None:
        assert effect(statement, "sql") is expected
        assert effect(f"psql <<'EOF'\n{statement}\nEOF") is expected

    @pytest.mark.parametrize(
        ("command", "language", "expected"),
        [
            ("Get-Process x | Stop-Process -Force", "", DESTRUCTIVE),
            ("Get-ChildItem | ForEach-Object { Remove-Item $_ }", "powershell", DESTRUCTIVE),
            ("$s = Get-Service web", "powershell", READ),
            ("db.orders.find({}).limit(5)", "", READ),
            ("db.orders.deleteMany({})", "javascript", DESTRUCTIVE),
            ("GET _cat/indices?v", "", READ),
            ('POST /orders/_search\n{"query": {}}', "http", READ),
            ("DELETE /orders", "", DESTRUCTIVE),
            ("FLUSHALL", "", DESTRUCTIVE),
            ("INFO memory\nCONFIG SET maxmemory 1gb", "redis", REVERSIBLE),
            ("sum(rate(resets_total[5m]))", "promql", READ),
            ("replicas: 3", "yaml", UNKNOWN),
        ],
    )
    def test_other_languages(self, command: str, language: str, expected: Effect) -> None:
        assert effect(command, language) is expected

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("curl -XPOST es:9200/orders/_search -d '{}'", READ),
            ("curl -XPOST es:9200/orders/_delete_by_query -d '{}'", DESTRUCTIVE),
            ("curl -G prom/api/v1/query --data-urlencode 'query=up'", READ),
            ("curl -sXDELETE http://x/y", DESTRUCTIVE),
            ("curl http://x/admin/shutdown", DESTRUCTIVE),
            ('curl -d \'{"action": "purge"}\' http://x/admin', DESTRUCTIVE),
            ("curl -X $METHOD http://x", UNKNOWN),
        ],
    )
    def test_requests_by_method_and_address(self, command: str, expected: Effect) -> None:
        assert effect(command) is expected
