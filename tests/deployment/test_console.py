"""The console as deployed: its files at the distribution's address, and its API for people of the user pool.

CDK's function that copies the files runs the AWS CLI at /opt, which the emulator's functions don't have: they are put into
the bucket here. The emulator's distributions don't reach its APIs either, so that requests go to the API's own address.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest

from infra.console import FILES
from opx_serve.console import HEADERS
from tests.deployment.emulator import Emulator, Visited
from tests.deployment.environments import CONSOLE_BUILT
from tests.deployment.system import SystemUnderTest

pytestmark = pytest.mark.skipif(not CONSOLE_BUILT, reason="the console isn't built: make console")

PEOPLE = {"reader@example.org": ["opx-reader"], "curator@example.org": ["opx-curator"], "stranger@example.org": []}
PASSWORD, VERIFIER = "Correct-horse-9-battery", "v" * 43


class DeployedConsole:
    """The resources of the stack, as a browser and an administrator reach them."""

    def __init__(self, system: SystemUnderTest) -> None:
        self.emulator: Emulator = system.emulator
        stack = system.names.stack("console")
        found = self.emulator.client("cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
        self._ids = {one["ResourceType"].removeprefix("AWS::"): one["PhysicalResourceId"] for one in found}
        self.pool, self.client = self._ids["Cognito::UserPool"], self._ids["Cognito::UserPoolClient"]
        self.bucket, self.api = self._ids["S3::Bucket"], self._ids["ApiGatewayV2::Api"]
        cloudfront = self.emulator.client("cloudfront")
        distribution = cloudfront.get_distribution(Id=self._ids["CloudFront::Distribution"])["Distribution"]
        self.host = str(distribution["DomainName"])
        self.page = f"https://{self.host}/console/"

    def fill(self) -> None:
        """Put the built files where the deployment does."""
        objects = self.emulator.client("s3")
        for path in filter(lambda one: one.is_file(), FILES.rglob("*")):
            key = f"console/{path.relative_to(FILES).as_posix()}"
            objects.put_object(Bucket=self.bucket, Key=key, Body=path.read_bytes())

    def add(self, person: str, *groups: str) -> None:
        """Add a person to the pool, as an administrator does."""
        cognito = self.emulator.client("cognito-idp")
        known: dict[str, str] = {"UserPoolId": self.pool, "Username": person}
        attributes = [{"Name": "email", "Value": person}, {"Name": "email_verified", "Value": "true"}]
        cognito.admin_create_user(
            **known, UserAttributes=attributes, MessageAction="SUPPRESS", TemporaryPassword=PASSWORD
        )
        cognito.admin_set_user_password(**known, Password=PASSWORD, Permanent=True)
        for group in groups:
            cognito.admin_add_user_to_group(**known, GroupName=group)

    def token_of(self, person: str) -> str:
        """Sign in as the page does: a code with PKCE, at the pool's own form."""
        challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
        parameters = {
            "client_id": self.client,
            "response_type": "code",
            "redirect_uri": self.page,
            "scope": "openid email profile",
            "state": "s",
            "nonce": "n",
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        form = self.emulator.visit("127.0.0.1", f"/oauth2/authorize?{urlencode(parameters)}")
        assert form.status == 200, form.body
        hidden = re.findall(r'name="(\w+)" value="([^"]*)"', form.body.decode())
        fields = {name: html.unescape(value) for name, value in hidden}
        sent = self._sent("/login", {**fields, "username": person, "password": PASSWORD})
        (code,) = parse_qs(urlsplit(sent.headers["location"]).query)["code"]
        exchange = {"grant_type": "authorization_code", "client_id": self.client, "code": code}
        exchange |= {"redirect_uri": self.page, "code_verifier": VERIFIER}
        return str(json.loads(self._sent("/oauth2/token", exchange).body)["id_token"])

    def call(self, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
        data = None if body is None else json.dumps(body).encode()
        host = f"{self.api}.execute-api.127.0.0.1"
        reply = self.emulator.visit(host, path, method=method, body=data, headers=headers)
        return reply.status, json.loads(reply.body)

    def _sent(self, path: str, form: dict[str, str]) -> Visited:
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.emulator.visit("127.0.0.1", path, method="POST", body=urlencode(form).encode(), headers=headers)


@pytest.fixture(scope="module")
def console(system: SystemUnderTest) -> DeployedConsole:
    found = DeployedConsole(system)
    found.fill()
    for person, groups in PEOPLE.items():
        found.add(person, *groups)
    return found


def test_the_page_is_served_with_its_policy(console: DeployedConsole) -> None:
    page = console.emulator.visit(console.host, "/console/")
    assert (page.status, b'<div id="root">' in page.body) == (200, True)
    policy = page.headers["content-security-policy"]
    assert policy.startswith(HEADERS["content-security-policy"].partition("connect-src")[0])
    assert "strict-transport-security" in page.headers
    (script,) = re.findall(r'src="\./(assets/[^"]+)"', page.body.decode())
    assert console.emulator.visit(console.host, f"/console/{script}").status == 200


def test_the_address_alone_leads_to_the_page(console: DeployedConsole) -> None:
    reply = console.emulator.visit(console.host, "/")
    assert (reply.status, reply.headers["location"]) == (302, "/console/")


def test_the_api_answers_who_signed_in_and_nobody_else(console: DeployedConsole) -> None:
    status, answer = console.call("GET", "/categories", console.token_of("reader@example.org"))
    assert status == 200, answer
    for token in ("", "a.b.c"):
        assert console.call("GET", "/categories", token)[0] == 401


def test_groups_are_roles(console: DeployedConsole) -> None:
    document = {"document": "# Fan\n\nOil the fan of the console."}
    path = "/ingest/internal/runbooks/procedures"
    status, answer = console.call("POST", path, console.token_of("curator@example.org"), document)
    assert status == 202, answer
    status, answer = console.call("POST", path, console.token_of("reader@example.org"), document)
    assert (status, answer["error"]["code"]) == (403, "forbidden")
    status, answer = console.call("GET", "/categories", console.token_of("stranger@example.org"))
    assert status == 403
    assert "none of the groups" in answer["error"]["message"]
