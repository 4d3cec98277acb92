"""Finding a deployed system through an AWS profile, and signing in to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from botocore.exceptions import ClientError, SSOTokenLoadError, UnauthorizedSSOTokenError
from moto import mock_aws

from opx.errors import AccessDeniedError, InvalidInputError, OpxError
from opx.settings import Settings
from opx.system import connect
from opx_aws.deployed_api import AwsAccount
from tests.doubles.api_gateway import KEY_ID, REGION, SECRET, is_signed
from tests.doubles.http_double import Request
from tests.support.remote_support import aws_credentials

HOST = f"abc123.execute-api.{REGION}.amazonaws.com"
CONFIG = f"""
[profile work]
region = {REGION}
ca_bundle = /etc/work.pem

[profile nowhere]
"""
CREDENTIALS = f"""
[work]
aws_access_key_id = {KEY_ID}
aws_secret_access_key = {SECRET}

[nowhere]
aws_access_key_id = {KEY_ID}
aws_secret_access_key = {SECRET}

[half]
aws_access_key_id = {KEY_ID}
"""


@pytest.fixture(autouse=True)
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This machine has the profiles above and nothing else."""
    aws_credentials(monkeypatch)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for variable, text in (("AWS_CONFIG_FILE", CONFIG), ("AWS_SHARED_CREDENTIALS_FILE", CREDENTIALS)):
        file = tmp_path / variable
        file.write_text(text)
        monkeypatch.setenv(variable, str(file))
    return tmp_path


@pytest.fixture
def cloud() -> Iterator[None]:
    with mock_aws():
        yield


def a_stack(environment: str, outputs: dict[str, str]) -> None:
    template = {
        "Resources": {"Topic": {"Type": "AWS::SNS::Topic"}},
        "Outputs": {name: {"Value": value} for name, value in outputs.items()},
    }
    client = boto3.Session(profile_name="work").client("cloudformation")
    client.create_stack(StackName=f"opx-knowledge-{environment}-api", TemplateBody=json.dumps(template))


@pytest.mark.usefixtures("cloud")
def test_the_address_is_an_output_of_the_environments_stack() -> None:
    a_stack("dev", {"ApiUrl": f"https://{HOST}"})
    a_stack("prod", {"ApiUrl": "https://knowledge.example.com"})
    assert AwsAccount("work").api_url("prod") == "https://knowledge.example.com"
    with_default = connect(Settings(aws_profile="work"))
    assert with_default.endpoint == f"https://{HOST}"
    with_default.close()


@pytest.mark.usefixtures("cloud")
def test_a_missing_system_is_reported_with_region_and_profile() -> None:
    with pytest.raises(OpxError, match=r"no stack opx-knowledge-prod-api \(region eu-west-1, AWS profile work\)"):
        AwsAccount("work", "eu-west-1").api_url("prod")


@pytest.mark.usefixtures("cloud")
def test_a_stack_without_an_address_is_an_error() -> None:
    a_stack("dev", {"Other": "x"})
    with pytest.raises(OpxError, match="has no output ApiUrl"):
        AwsAccount("work").api_url("dev")


def test_an_unknown_profile_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidInputError, match=r"no AWS profile 'wrok' on this machine; there are: .*work"):
        AwsAccount("wrok")


def test_a_profile_without_a_region_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="AWS profile nowhere has no region: give one with --region"):
        AwsAccount("nowhere").api_url("dev")


def test_a_broken_configuration_is_refused(profiles: Path) -> None:
    (profiles / "AWS_CONFIG_FILE").write_text("[profile work\n")
    with pytest.raises(InvalidInputError, match="Unable to parse config file"):
        AwsAccount("work")


def test_the_authorities_of_the_profile_are_used() -> None:
    assert AwsAccount("work").certificates == "/etc/work.pem"
    assert AwsAccount("nowhere").certificates == ""


def test_without_credentials_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with pytest.raises(AccessDeniedError, match="no usable credentials in the AWS credentials of this machine"):
        AwsAccount().signed("GET", f"https://{HOST}/status", {}, None)


def test_half_of_a_key_is_no_credentials() -> None:
    with pytest.raises(AccessDeniedError, match="no usable credentials in AWS profile half"):
        AwsAccount("half", REGION).signed("GET", f"https://{HOST}/status", {}, None)


@pytest.mark.parametrize("error", [UnauthorizedSSOTokenError(), SSOTokenLoadError(error_msg="gone")])
def test_an_expired_session_is_reported_with_the_sign_in_command(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def over(*_: object) -> None:
        raise error

    monkeypatch.setattr("boto3.Session.get_credentials", over)
    with pytest.raises(AccessDeniedError, match="aws sso login --profile work"):
        AwsAccount("work").signed("GET", f"https://{HOST}/status", {}, None)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("ExpiredToken", "the credentials of AWS profile work have expired"),
        ("InvalidClientTokenId", "AWS doesn't know the credentials of AWS profile work"),
        ("AccessDenied", "needs cloudformation:DescribeStacks; or give --api URL"),
    ],
)
def test_refusal_by_aws_is_explained(monkeypatch: pytest.MonkeyPatch, code: str, text: str) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ClientError({"Error": {"Code": code}}, "DescribeStacks")

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", refuse)
    with pytest.raises(AccessDeniedError, match=text):
        AwsAccount("work").api_url("dev")


def signed(target: str = "/documents?after=a%2Fb%20c&limit=3", body: bytes | None = b'{"a": 1}') -> Request:
    sent = AwsAccount("work").signed("POST", f"https://{HOST}{target}", {"Content-Type": "application/json"}, body)
    headers = {"host": HOST, **{name.lower(): value for name, value in sent.items()}}
    return Request("POST", "", {}, headers, body or b"", target)


def test_the_signature_is_the_one_that_aws_would_make() -> None:
    assert is_signed(signed())
    assert is_signed(signed(body=None))


def test_the_signature_covers_address_and_body() -> None:
    request = signed()
    for changed in (
        Request("POST", "", {}, request.headers, b"{}", request.target),
        Request("POST", "", {}, request.headers, request.body, "/documents?limit=4"),
        Request("DELETE", "", {}, request.headers, request.body, request.target),
    ):
        assert not is_signed(changed)


def test_the_region_of_the_address_counts_more_than_the_profiles() -> None:
    url = "https://abc123.execute-api.us-west-2.amazonaws.com/status"
    assert "/us-west-2/execute-api/" in AwsAccount("work").signed("GET", url, {}, None)["Authorization"]
    named = AwsAccount("work").signed("GET", "https://knowledge.example.com/status", {}, None)
    assert f"/{REGION}/execute-api/" in named["Authorization"]


def test_a_token_and_an_address_need_nothing_of_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opx_aws.deployed_api.AwsAccount", None)
    remote = connect(Settings(api_url="https://knowledge.example.com", api_token="x"))
    assert remote.endpoint == "https://knowledge.example.com"
    remote.close()
