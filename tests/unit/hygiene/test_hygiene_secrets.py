"""Secrets are masked: issued ones, keys, and those that structures over lines state."""

from __future__ import annotations

import base64
import random
import string
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opx.hygiene.cleaning import Cleaner
from opx.hygiene.secrets import mask, secret_formats

LETTERS = string.ascii_letters + string.digits


def any_token(length: int, alphabet: str = LETTERS, seed: str = "token") -> str:
    """Random characters, the same every time, with a digit and letters of both cases."""
    return "aB7" + "".join(random.Random(seed).choices(alphabet, k=length - 3))


UPPER = string.ascii_uppercase + "234567"
RANDOM = any_token(20)
ISSUED = {
    "aws-access-key": "AKIA" + any_token(16, UPPER).upper(),
    "github-token": "ghp_" + any_token(36),
    "gitlab-token": "glpat-" + any_token(20),
    "slack-token": "xoxb-" + any_token(24),
    "stripe-key": "sk_live_" + any_token(24),
    "google-api-key": "AIza" + any_token(35),
    "google-oauth-secret": "GOCSPX-" + any_token(28),
    "azure-client-secret": "aB1" + "8Q~" + any_token(34),
    "npm-token": "npm_" + any_token(36),
    "pypi-token": "pypi-Ag" + any_token(60),
    "jwt": f"eyJ{any_token(20)}.eyJ{any_token(40)}.{any_token(43)}",
    "model-api-key": "sk-proj-" + any_token(40),
    "hashicorp-token": "hvs." + any_token(24),
    "hosting-token": "dckr_pat_" + any_token(27),
    "service-token": "dapi" + any_token(32, string.hexdigits.lower()).lower(),
    "service-key": "SG." + any_token(22) + "." + any_token(43),
    "bot-or-age-key": "8365029174:AA" + any_token(33),
}
IN_CONTEXT = {
    "slack-webhook": "https://hooks.slack.com/services/{}/x",
    "azure-key": "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={}==;EndpointSuffix=core.windows.net",
    "azure-signature": "https://a.blob.core.windows.net/c/b?sv=2024-01-01&sig={}%3D",
    "aws-secret-key": "AWS Secret Access Key [None]: {}",
}
LENGTHS = {"slack-webhook": 24, "azure-key": 86, "azure-signature": 43, "aws-secret-key": 40}
PLACES = ["{}", "export TOKEN={}", '{{"value": "{}"}}', "  key: '{}'  # rotated", "| {} |", "`{}`,", "see <{}>."]
KEY_BODY = "\n".join(any_token(64, LETTERS + "+/", seed=str(n)) for n in range(6))


def pem(body: str, kind: str = "RSA ") -> str:
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def kinds(text: str) -> list[str]:
    return [finding.kind for finding in mask(text)[1]]


class TestIssuedTokens:
    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("kind", ISSUED)
    def test_token_is_masked_wherever_it_stands(self, kind: str, place: str) -> None:
        masked, (finding,) = mask(place.format(ISSUED[kind]))
        assert masked == place.format(f"[masked {kind} {finding.fingerprint}]")
        assert finding.kind == kind

    @pytest.mark.parametrize("kind", IN_CONTEXT)
    def test_value_is_masked_and_its_context_stays(self, kind: str) -> None:
        secret = any_token(LENGTHS[kind])
        masked, (finding,) = mask(IN_CONTEXT[kind].format(secret))
        assert finding.kind == kind
        assert secret not in masked
        assert masked.startswith(IN_CONTEXT[kind].partition("{}")[0])

    def test_fingerprint_distinguishes_secrets_and_stays_the_same(self) -> None:
        one, other = ISSUED["github-token"], "ghp_" + any_token(36, seed="other")
        masked, findings = mask(f"{one} {other} {one}")
        first, second, third = (finding.fingerprint for finding in findings)
        assert first == third != second
        assert len(first) == 4
        assert masked.count(f"[masked github-token {first}]") == 2

    def test_fingerprint_of_a_chosen_secret_is_shorter(self) -> None:
        _, (finding,) = mask(f"password: Tr0ub4dor&{RANDOM}")
        assert len(finding.fingerprint) == 2

    def test_masking_again_changes_nothing(self) -> None:
        text = f"{ISSUED['jwt']}\npassword: {RANDOM}\npostgres://app:{RANDOM}@db/x\n{pem(KEY_BODY)}\n"
        masked, findings = mask(text)
        assert len(findings) == 4
        assert mask(masked) == (masked, ())

    def test_finding_has_the_line_and_never_the_secret(self) -> None:
        _, findings = mask(f"one\ntwo\n{ISSUED['npm-token']}\n")
        assert [finding.line for finding in findings] == [3]
        assert ISSUED["npm-token"][4:] not in repr(findings)


class TestPasswords:
    @pytest.mark.parametrize(
        "text",
        [
            "postgres://app:{}@db.internal:5432/orders",
            "amqp://svc:{}@mq/vhost",
            "git clone https://bot:{}@git.example.com/x.git",
            "Server=tcp:db,1433;User ID=sa;Password={};Encrypt=true",
            "host=db user=app password={} dbname=orders",
            "password={}",
            "DB_PASSWORD: {}",
            '"client_secret": "{}",',
            "apiKey = '{}'",
            "api_key := `{}`",
            "- **Password**: `{}`",
            "| admin password | {} |",
            "Passwort: {}",
            '{{\\"token\\": \\"{}\\"}}',
            "Authorization: Bearer {}",
            "curl -H 'X-Api-Key: {}' https://x",
            "curl -u admin:{} https://x",
            "deploy --password {} --force",
        ],
    )
    def test_random_value_is_masked(self, text: str) -> None:
        masked, findings = mask(text.format(RANDOM))
        assert len(findings) == 1
        assert RANDOM not in masked
        before, _, after = text.format("SPLIT").partition("SPLIT")
        assert masked.startswith(before)
        assert masked.endswith(after)

    def test_basic_authorisation_is_masked_if_it_has_a_password(self) -> None:
        header = base64.b64encode(f"bot:{RANDOM}".encode()).decode()
        assert kinds(f"Authorization: Basic {header}") == ["authorization"]
        assert kinds("Authorization: Basic " + base64.b64encode(b"user:password").decode()) == []


LEFT_ALONE = [
    "AKIAIOSFODNN7EXAMPLE",
    "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "password: <password>",
    "password=${DB_PASSWORD}",
    "password: {{ vault_password }}",
    "PASSWORD=$(aws secretsmanager get-secret-value --secret-id prod/db1)",
    "token: xxxxxxxxxxxxxxxxxxxxxxxx1",
    "password: changeme123",
    "password: ********",
    "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "postgres://user:password@localhost/db",
    "amqp://guest:guest@localhost",
    "https://example.com:8443/path@2x.png",
    "mailto:someone@example.com",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "token: 123e4567-e89b-12d3-a456-426614174000",
    "CVE-2024-23113 and GHSA-jfh8-c2jp-5v3q",
    "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-AbCdEf",
    "secret: arn:aws:iam::123456789012:role/deploy-prod-1",
    "secretName: db-credentials-2",
    "secret: my-database-secret-v2",
    "secret: orders-db-eu-west-1",
    "token: registry-pull-2",
    "password_file: /etc/app/pw1",
    "password = get_secret('orders-db-1')",
    "token = request.headers['X-Auth-Token-2']",
    "max_tokens: 4096",
    "nextToken: aB7dK29xLm3Qp8Rt",
    "--idempotency-token shop20250422",
    "The password policy requires 12 characters.",
    "Rotate the secret in Vault: secret/data/payments/api-v2",
    "-----BEGIN CERTIFICATE-----\n" + KEY_BODY + "\n-----END CERTIFICATE-----",
    "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----\n",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0\n-----END PRIVATE KEY-----\n",
    "Look for `-----BEGIN RSA PRIVATE KEY-----` in the file.\nThen stop.\n",
]


@pytest.mark.parametrize("text", LEFT_ALONE)
def test_placeholders_references_hashes_and_names_are_left_alone(text: str) -> None:
    assert mask(text) == (text, ())


class TestPrivateKeys:
    @pytest.mark.parametrize("kind", ["", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED "])
    def test_key_over_lines_becomes_one_mask(self, kind: str) -> None:
        masked, (finding,) = mask(f"before\n{pem(KEY_BODY, kind)}\nafter\n")
        assert masked == f"before\n[masked private-key {finding.fingerprint}]\nafter\n"
        assert finding.line == 2

    def test_key_in_json_is_masked(self) -> None:
        escaped = pem(KEY_BODY).replace("\n", "\\n")
        masked, (finding,) = mask(f'{{"private_key": "{escaped}\\n", "id": 7}}')
        assert masked == f'{{"private_key": "{finding.mask}\\n", "id": 7}}'

    @pytest.mark.parametrize("indent", ["    ", "> ", "# ", "+"])
    def test_indented_and_quoted_keys_are_masked(self, indent: str) -> None:
        text = "\n".join(indent + line for line in pem(KEY_BODY).splitlines())
        masked, (finding,) = mask(f"key: |\n{text}\nnext: 1\n")
        assert masked == f"key: |\n{indent}{finding.mask}\nnext: 1\n"

    def test_key_without_an_end_is_masked_up_to_the_next_text(self) -> None:
        masked, (finding,) = mask(f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}\nThe rest was cut.\n")
        assert masked == f"{finding.mask}\nThe rest was cut.\n"

    def test_key_at_the_end_of_the_text_is_masked(self) -> None:
        masked, _ = mask(f"-----BEGIN PRIVATE KEY-----\n{KEY_BODY}")
        assert KEY_BODY[:64] not in masked

    def test_beginning_of_a_key_hides_no_other_secret(self) -> None:
        masked, findings = mask(f"-----BEGIN PRIVATE KEY-----\n{ISSUED['aws-access-key']}\n")
        assert masked == f"-----BEGIN PRIVATE KEY-----\n{findings[0].mask}\n"

    def test_headers_within_a_key_go_with_it(self) -> None:
        body = f"Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,8A3F\n\n{KEY_BODY}"
        masked, findings = mask(pem(body))
        assert (masked, len(findings)) == (findings[0].mask, 1)

    @pytest.mark.parametrize("separator", ["\n  ", "\r\n", "\\n", "\\\\r\\\\n", " ", '\\n" + "'])
    def test_fingerprint_does_not_depend_on_how_its_lines_are_separated(self, separator: str) -> None:
        separated = pem(KEY_BODY).replace("\n", separator)
        assert mask(pem(KEY_BODY))[1][0].fingerprint == mask(separated)[1][0].fingerprint

    @pytest.mark.parametrize("ends", [True, False])
    @pytest.mark.parametrize(
        "form",
        [
            "{}",
            "```\n{}\n```",
            "| key | {} |",
            "<pre>\n{}\n</pre>",
        ],
    )
    @pytest.mark.parametrize("separator", ["\n", "\r\n", "\\n", "\\r\\n", "\\\\n", " ", "", "\n\n", "\n    ", "\n> "])
    def test_a_key_is_masked_however_its_lines_are_separated(self, separator: str, form: str, ends: bool) -> None:
        lines = pem(KEY_BODY + "\n" + any_token(17)).splitlines()
        text = form.format(separator.join(lines if ends else lines[:-1]))
        masked, findings = mask(f"before\n{text}\n\nText that comes after the key\n")
        assert [finding.kind for finding in findings] == ["private-key"]
        assert not any(line in masked for line in KEY_BODY.splitlines())
        assert masked.startswith("before\n")
        assert masked.endswith("Text that comes after the key\n")

    @pytest.mark.parametrize("prefix", ["{} ", "{:>4}  ", "{}\t"])
    def test_a_key_with_numbers_before_its_lines_is_masked(self, prefix: str) -> None:
        begin, *body, end = pem(KEY_BODY).splitlines()
        numbered = "\n".join(prefix.format(number) + line for number, line in enumerate(body, start=2))
        masked, (finding,) = mask(f"{begin}\n{numbered}\n{end}\n")
        assert masked == f"{finding.mask}\n"

    @pytest.mark.parametrize(
        "prose",
        [
            "Restart both load balancers one after the other and watch the pool",
            "Copy the backup over the file and restart nginx on every node again\n\nThen tell the network team",
            "## Roll back\n\nStop the service on all 3 nodes and copy the Backup of the file over it",
            "> Ask the Network team for the file of all 3 nodes and never send it by mail",
            "* nginx\n* haproxy\n* postgres\n* prometheus\n* grafana\n* elasticsearch\n* kubernetes",
            "\n".join("Restart both load balancers one after the other and watch pool 1" for _ in range(40)),
        ],
    )
    @pytest.mark.parametrize("fence", ["```\n{}\n```", "    {}\n", "`{}`", "{}"])
    def test_prose_after_a_mention_of_a_key_stays(self, fence: str, prose: str) -> None:
        text = f"The file begins with\n\n{fence.format('-----BEGIN RSA PRIVATE KEY-----')}\n\n{prose}\n"
        assert mask(text) == (text, ())

    def test_prose_between_the_first_and_the_last_line_of_a_key_stays(self) -> None:
        text = pem("Here come some lines of base64 and all of them are as long as the first one but 4")
        assert mask(text) == (text, ())

    def test_a_token_after_a_key_is_masked_too(self) -> None:
        assert kinds(f"{pem(KEY_BODY)}\n{ISSUED['npm-token']}\n") == ["private-key", "npm-token"]


PASSWORD = "Blaumeise"
WRAPPED = "wJalr7UtnFEmIK7MdENGbPxRfiCYq2s9Kd83hTze"
VALUE = base64.b64encode(b"bird:Blaumeise").decode()


def masked_lines(text: str) -> list[int]:
    """Numbers of the lines, from 0, in which something is masked."""
    return [number for number, line in enumerate(mask(text)[0].splitlines()) if "[masked " in line]


class TestTables:
    def test_only_the_column_is_masked(self) -> None:
        text = f"| Host | Password | Note |\n|---|---|---|\n| a | {PASSWORD} | spare |\n"
        masked, (finding,) = mask(text)
        assert masked == text.replace(PASSWORD, finding.mask)
        assert (finding.kind, finding.line) == ("table-password", 3)

    def test_table_ends_with_its_last_row(self) -> None:
        text = f"| Host | Password |\n|---|---|\n| a | {PASSWORD} |\n\n| b | Kohlmeise |\n"
        assert masked_lines(text) == [2]

    def test_first_row_without_dashes_below_is_no_header(self) -> None:
        assert masked_lines("| Topic | Password |\n| a | Kohlmeise |\n") == []

    def test_table_of_thousands_of_rows_is_masked_to_its_end(self) -> None:
        text = "host,password\n" + f"a,{PASSWORD}\n" * 5000
        assert PASSWORD not in mask(text)[0]

    def test_names_of_secrets_in_a_column_stay(self) -> None:
        text = "| Secret | Used by |\n|---|---|\n| orders-db-credentials | shop |\n"
        assert mask(text) == (text, ())

    def test_names_of_columns_stay_where_they_are_repeated(self) -> None:
        part = f"| Host | Password |\n| --- | --- |\n| a | {PASSWORD} |\n\n"
        masked, _ = mask(part * 2)
        assert masked.count("| Host | Password |") == 2
        assert PASSWORD not in masked

    @pytest.mark.parametrize(
        "rows", ["Pass,Fail\n12,3\n", "Use login, password, or token.\nThe first, second, or third.\n"]
    )
    def test_sentences_and_counts_are_no_tables(self, rows: str) -> None:
        assert mask(rows) == (rows, ())


class TestKubernetes:
    @pytest.mark.parametrize("order", ["kind: Secret\n{}", "{}kind: Secret\n"])
    def test_value_is_masked_wherever_the_kind_stands(self, order: str) -> None:
        text = order.format(f"data:\n  any: {VALUE}\n")
        masked, (finding,) = mask(text)
        assert masked == text.replace(VALUE, finding.mask)

    def test_values_of_a_config_map_stay(self) -> None:
        text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  mode: production\n  url: https://api.internal\n"
        assert mask(text) == (text, ())

    def test_a_config_map_after_a_secret_stays(self) -> None:
        text = f"kind: Secret\ndata:\n  a: {VALUE}\n\nThen:\n\napiVersion: v1\ndata:\n  mode: production\n"
        assert masked_lines(text) == [2]

    def test_any_value_of_a_secret_is_masked_and_a_template_stays(self) -> None:
        assert masked_lines("kind: Secret\ndata:\n  a: 3q2+7w==\n  b: {{ .Values.b }}\n") == [2]

    def test_block_of_lines_in_a_secret_is_masked(self) -> None:
        assert masked_lines("kind: Secret\nstringData:\n  a: |\n    one\n    two\nb: three\n") == [3, 4]


class TestNextLines:
    def test_wrapped_value_is_masked(self) -> None:
        text = f"AWS secret access key:\n{WRAPPED}\n"
        assert masked_lines(text) == [1]

    def test_prose_after_a_heading_stays(self) -> None:
        text = "Password:\n\n  Kohlmeise\n\nPassword:\nKohlmeise\n\nToken:\n  Kohlmeise\n"
        assert mask(text) == (text, ())
        assert masked_lines("Password:\n  Kohlmeise\n") == [1]

    def test_name_and_value_on_their_own_lines(self) -> None:
        assert masked_lines(f"- name: DB_PASSWORD\n  value: {PASSWORD}\n- name: LEVEL\n  value: debug\n") == [1]

    def test_default_of_a_variable(self) -> None:
        text = f'variable "db_password" {{\n  default = "{PASSWORD}"\n}}\nmodule "region" {{\n  default = "west"\n}}\n'
        assert masked_lines(text) == [1]

    def test_password_on_a_line_after_its_user(self) -> None:
        assert masked_lines(f"machine api.internal\nlogin bot\npassword {PASSWORD}\n\n\npassword reset\n") == [2]

    def test_answer_to_a_prompt_of_a_script(self) -> None:
        text = f'expect "assword:"\nsend "{PASSWORD}\\r"\nexpect "#"\nsend "show version\\r"\n'
        assert masked_lines(text) == [1]

    def test_putty_key_and_nothing_after_it(self) -> None:
        line = "AAAAB3NzaC1yc2EAAAADAQABAAABAQ"
        assert masked_lines(f"Public-Lines: 1\n{line}\nPrivate-Lines: 2\n{line}\n{line}\nPrivate-MAC: 7\n") == [3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "password: Example-owls-9xQ7rT2w",
        "DB_PASSWORD=winterschlaf",
        "mysql -u root -p'two words' shop",
        "The root password is Wasserfall.",
        f"machine a login b password {PASSWORD}",
        f"enable secret 0 {PASSWORD}",
        f"<password>{PASSWORD}</password>",
    ],
)
def test_masking_again_changes_nothing(text: str) -> None:
    masked, findings = mask(text + "\n")
    assert len(findings) == 1
    assert mask(masked) == (masked, ())


def test_a_structure_over_blocks_of_the_cleaner_is_followed() -> None:
    lines = ["| Host | Password |\n", "|---|---|\n", *[f"| {'x' * 80} | {PASSWORD} |\n"] * 1000]
    cleaner = Cleaner()
    output = "".join(cleaner.clean(lines))
    assert PASSWORD not in output
    assert cleaner.remarks[0].text.startswith("line 3: password in a table")


HINTS = sorted({hint for form in secret_formats() for hint in form.hints})
HOSTILE = ("{} ", "{}:", "{} -p ", '"{}": "', "| {} ", "{}_", "{}.")
LENGTH = 8_192


@pytest.mark.timeout(120)
@pytest.mark.parametrize("form", HOSTILE)
def test_lines_of_repeated_literals_take_time_that_grows_with_their_length(form: str) -> None:
    for hint in HINTS:
        piece = form.format(hint)
        line = (piece * (LENGTH // len(piece)))[:LENGTH] + "\n"
        assert len(list(Cleaner().clean([line]))) == 1


@pytest.mark.timeout(120)
@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(
        st.sampled_from([*HINTS, *(a + b for a, b in product(" \t\"'`=:|,;<>{}[]$-", " =\"'"))]), max_size=6
    )
)
def test_lines_of_any_literals_are_cleaned_to_as_many_lines(pieces: list[str]) -> None:
    piece = "".join(pieces) or " "
    lines = [(piece * (8000 // len(piece)))[:8000] + "\n"] * 3
    assert "".join(Cleaner().clean(lines)).count("\n") == 3
