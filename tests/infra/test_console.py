"""The console on AWS: its files, its address, who signs in, and the API behind it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from infra.application import build, new_app
from infra.configuration import ContextError, Deployment
from infra.console_choices import groups_claim
from infra.constructs.console_pages import ADDRESSES
from opx.domain.policy import GROUPS
from opx.operations import load
from opx.settings import Settings
from opx_serve.console import HEADERS
from tests.infra.templates import Assembly, Resource, lint_findings, synthesise
from tests.infra.test_application import compact
from tests.infra.test_functions import environment

CERTIFICATE = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
WEB_ACL = "arn:aws:wafv2:us-east-1:123456789012:global/webacl/office/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
DOMAIN, LOGIN = "knowledge.example.org", "https://login.example.org/tenant"
ISSUER = "https://cognito-idp.<AWS::Region>.<AWS::URLSuffix>/<{}>"
ELSEWHERE = {
    "console_issuer": LOGIN,
    "console_client": "page-1",
    "console_domain": DOMAIN,
    "console_certificate": CERTIFICATE,
    "console_zone": "Z0123456789ABC",
    "console_web_acl": WEB_ACL,
    "console_logs": "true",
    "console_price_class": "all",
}


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory, console_files: Path) -> Assembly:
    """With a user pool, at an address of CloudFront."""
    return synthesise({"console": "true"}, tmp_path_factory.mktemp("cdk"), console_files)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory, console_files: Path) -> Assembly:
    """With an issuer that exists, a domain, a web ACL and a key of the environment."""
    context = {"console": "true", **ELSEWHERE, "kms_key": "own", "ephemeral": "true"}
    return synthesise(context, tmp_path_factory.mktemp("cdk"), console_files)


def distribution(assembly: Assembly) -> Resource:
    found: Resource = assembly.only("console", "CloudFront::Distribution")["DistributionConfig"]
    return found


def policy_of(assembly: Assembly) -> dict[str, str]:
    """The Content-Security-Policy by directive."""
    headers = assembly.only("console", "CloudFront::ResponseHeadersPolicy")["ResponseHeadersPolicyConfig"]
    text = headers["SecurityHeadersConfig"]["ContentSecurityPolicy"]["ContentSecurityPolicy"]
    return dict(directive.strip().split(" ", 1) for directive in text.split(";"))


def settings_of(assembly: Assembly) -> dict[str, Any]:
    """The page's file of settings, as the deployment writes it."""
    uploads = assembly.resources("console", "Custom::CDKBucketDeployment")
    (page,) = (found for found in uploads.values() if len(found["SourceObjectKeys"]) == 2)
    (archive,) = [key for key in page["SourceObjectKeys"] if key != _built(assembly)]
    text = (assembly.folder / f"asset.{archive.removesuffix('.zip')}" / "settings.json").read_text()
    for marker, value in page["SourceMarkers"][1].items():
        text = text.replace(marker, value)
    found: dict[str, Any] = json.loads(text)
    return found


def _built(assembly: Assembly) -> str:
    uploads = assembly.resources("console", "Custom::CDKBucketDeployment").values()
    ((key,),) = [found["SourceObjectKeys"] for found in uploads if len(found["SourceObjectKeys"]) == 1]
    return str(key)


def test_cdk_nag_and_cfn_lint_find_nothing(console: Assembly, elsewhere: Assembly) -> None:
    for assembly in (console, elsewhere):
        assert assembly.findings == []
        assert lint_findings(assembly, "console") == []
        assert lint_findings(assembly, "storage") == []


def test_the_template_is_as_it_was(console: Assembly, snapshot: SnapshotAssertion) -> None:
    routes = "ApiGatewayV2::Route "
    lines = [line for line in compact(console, "console").splitlines() if not line.startswith(routes)]
    assert "\n".join(lines) == snapshot


def test_without_the_choice_there_is_none(default: Assembly) -> None:
    assert "console" not in default.templates
    kinds = {resource["Type"].split("::")[1] for _, _, resource in default.all_resources()}
    assert not kinds & {"CloudFront", "Cognito"}
    assert "OPX_GROUPS_CLAIM" not in environment(default, "api")


class TestFiles:
    def test_a_console_that_was_not_built_is_refused_with_what_builds_it(self, tmp_path: Path) -> None:
        app = new_app({"aws:cdk:bundling-stacks": [], "console": "true"}, str(tmp_path / "out"))
        with pytest.raises(ContextError, match="make console"):
            build(app, console_files=tmp_path)

    def test_nobody_but_the_distribution_may_read_them(self, console: Assembly) -> None:
        bucket = console.only("console", "S3::Bucket")
        assert set(bucket["PublicAccessBlockConfiguration"].values()) == {True}
        (made,) = console.resources("console", "CloudFront::Distribution")
        statements = console.only("console", "S3::BucketPolicy")["PolicyDocument"]["Statement"]
        given = [statement for statement in statements if statement["Effect"] == "Allow"]
        (allowed,) = [statement for statement in given if "s3:GetObject" in statement["Action"]]
        assert (allowed["Action"], allowed["Principal"]) == ("s3:GetObject", {"Service": "cloudfront.amazonaws.com"})
        emptied = [statement["Principal"]["AWS"] for statement in given if statement is not allowed]
        assert emptied == ["<CustomS3AutoDeleteObjectsCustomResourceProviderRole3B1BD092.Arn>"]
        assert allowed["Condition"]["StringEquals"]["AWS:SourceArn"].endswith(f":distribution/<{made}>")
        origin = next(one for one in distribution(console)["Origins"] if "S3OriginConfig" in one)
        (control,) = console.resources("console", "CloudFront::OriginAccessControl")
        assert origin["OriginAccessControlId"] == f"<{control}.Id>"

    def test_names_that_change_with_content_are_kept_and_the_page_is_not(self, console: Assembly) -> None:
        uploads = console.resources("console", "Custom::CDKBucketDeployment").values()
        found = {json.dumps(one.get("Include")): one["SystemMetadata"]["cache-control"] for one in uploads}
        assert found == {'["assets/*"]': "public, max-age=31536000, immutable", "null": "no-cache"}
        assert {one["DestinationBucketKeyPrefix"] for one in uploads} == {"console"}

    def test_the_page_learns_where_to_sign_in_from_a_file_of_the_deployment(
        self, console: Assembly, elsewhere: Assembly
    ) -> None:
        (client,) = console.resources("console", "Cognito::UserPoolClient")
        (pool,) = console.resources("console", "Cognito::UserPool")
        found = settings_of(console)
        assert found["issuer"] == ISSUER.format(pool)
        assert found["clientId"] == f"<{client}>"
        assert found["signOut"].endswith(".amazoncognito.com/logout")
        scopes = "openid email profile"
        assert settings_of(elsewhere) == {"issuer": LOGIN, "clientId": "page-1", "scope": scopes}

    def test_they_go_with_the_stack_and_logs_only_with_a_trial(self, console: Assembly, elsewhere: Assembly) -> None:
        for assembly in (console, elsewhere):
            buckets = [r for r in assembly.templates["console"]["Resources"].values() if r["Type"] == "AWS::S3::Bucket"]
            assert {bucket["DeletionPolicy"] for bucket in buckets} == {"Delete"}
            assert len(assembly.resources("console", "Custom::S3AutoDeleteObjects")) == len(buckets)

    def test_the_environments_key_is_not_theirs(self, elsewhere: Assembly) -> None:
        for bucket in elsewhere.resources("console", "S3::Bucket").values():
            (rule,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
            assert rule["ServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


class TestAddress:
    def test_the_page_and_the_api_are_one_origin(self, console: Assembly) -> None:
        found = distribution(console)
        (page,) = found["CacheBehaviors"]
        origins = {one["Id"]: one for one in found["Origins"]}
        assert page["PathPattern"] == "/console/*"
        assert "S3OriginConfig" in origins[page["TargetOriginId"]]
        api = origins[found["DefaultCacheBehavior"]["TargetOriginId"]]
        assert api["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"
        assert api["CustomOriginConfig"]["OriginSSLProtocols"] == ["TLSv1.2"]
        assert "POST" in found["DefaultCacheBehavior"]["AllowedMethods"]
        assert "CorsConfiguration" not in console.only("console", "ApiGatewayV2::Api")

    def test_replies_of_the_api_are_not_cached_and_its_requests_keep_their_token(self, console: Assembly) -> None:
        behavior = distribution(console)["DefaultCacheBehavior"]
        assert behavior["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"  # AWS: CachingDisabled
        assert behavior["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"  # AllViewerExceptHostHeader

    def test_a_page_may_send_requests_to_its_origin_the_bucket_and_the_issuer_alone(
        self, console: Assembly, elsewhere: Assembly
    ) -> None:
        bucket = "https://{}opx-knowledge-corpus-<AWS::AccountId>-<AWS::Region>.s3.<AWS::Region>.<AWS::URLSuffix>"
        assert policy_of(elsewhere)["connect-src"].split() == [
            "'self'",
            bucket.format("dev-"),
            "https://login.example.org",
        ]
        cognito = "https://cognito-idp.<AWS::Region>.<AWS::URLSuffix>"
        sign_in = "https://dev-opx-knowledge-<AWS::AccountId>.auth.<AWS::Region>.amazoncognito.com"
        assert policy_of(console)["connect-src"].split() == ["'self'", bucket.format("dev-"), cognito, sign_in]

    def test_its_other_headers_are_those_of_the_laptop_and_tls(self, console: Assembly) -> None:
        served = dict(one.strip().split(" ", 1) for one in HEADERS["content-security-policy"].split(";"))
        assert {**policy_of(console), "connect-src": "'self'"} == served
        policy = console.only("console", "CloudFront::ResponseHeadersPolicy")["ResponseHeadersPolicyConfig"]
        security = policy["SecurityHeadersConfig"]
        assert security["StrictTransportSecurity"]["AccessControlMaxAgeSec"] == 365 * 86400
        assert security["FrameOptions"]["FrameOption"] == "DENY"
        assert security["ReferrerPolicy"]["ReferrerPolicy"] == "no-referrer"
        assert security["ContentTypeOptions"]["Override"]
        custom = {one["Header"]: one["Value"] for one in policy["CustomHeadersConfig"]["Items"]}
        assert custom == {name: value for name, value in HEADERS.items() if name.startswith("cross-origin-")}
        behaviors = [distribution(console)["DefaultCacheBehavior"], *distribution(console)["CacheBehaviors"]]
        (headers,) = console.resources("console", "CloudFront::ResponseHeadersPolicy")
        assert {one["ResponseHeadersPolicyId"] for one in behaviors} == {f"<{headers}>"}
        assert {one["ViewerProtocolPolicy"] for one in behaviors} == {"redirect-to-https"}

    def test_a_domain_has_its_certificate_and_tls_and_is_entered_in_its_zone(self, elsewhere: Assembly) -> None:
        found = distribution(elsewhere)
        assert found["Aliases"] == [DOMAIN]
        assert found["ViewerCertificate"]["AcmCertificateArn"] == CERTIFICATE
        assert found["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
        (made,) = elsewhere.resources("console", "CloudFront::Distribution")
        records = elsewhere.resources("console", "Route53::RecordSet").values()
        assert {record["Type"] for record in records} == {"A", "AAAA"}
        assert {record["AliasTarget"]["DNSName"] for record in records} == {f"<{made}.DomainName>"}
        assert elsewhere.templates["console"]["Outputs"]["ConsoleUrl"]["Value"] == f"https://{DOMAIN}/console/"

    def test_a_web_acl_a_log_and_more_locations_are_choices(self, console: Assembly, elsewhere: Assembly) -> None:
        plain, chosen = distribution(console), distribution(elsewhere)
        assert (chosen["WebACLId"], chosen["PriceClass"], "Logging" in chosen) == (WEB_ACL, "PriceClass_All", True)
        assert (plain["PriceClass"], plain.keys() & {"WebACLId", "Logging"}) == ("PriceClass_100", set())

    @pytest.mark.skipif(not shutil.which("node"), reason="needs node")
    @pytest.mark.parametrize(
        ("uri", "expected"),
        [
            ("/", "302 /console/"),
            ("/console", "302 /console/"),
            ("/console/", "/console/index.html"),
            ("/console/assets/a.js", "/console/assets/a.js"),
            ("/documents/1", "/documents/1"),
        ],
    )
    def test_an_address_leads_to_its_file_or_to_the_api(self, uri: str, expected: str) -> None:
        show = "const r = handler({request: {uri: process.argv[1]}});"
        show += "console.log(r.statusCode ? `${r.statusCode} ${r.headers.location.value}` : r.uri)"
        command = ["node", "-e", ADDRESSES.read_text() + show, uri]
        assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip() == expected

    def test_files_go_to_the_bucket_from_the_console_alone(
        self, console: Assembly, elsewhere: Assembly, default: Assembly
    ) -> None:
        expected = {"https://*.cloudfront.net": console, f"https://{DOMAIN}": elsewhere}
        for origin, assembly in expected.items():
            (rule,) = corpus(assembly)["CorsConfiguration"]["CorsRules"]
            assert (rule["AllowedOrigins"], rule["AllowedMethods"]) == ([origin], ["PUT"])
        assert "CorsConfiguration" not in corpus(default)


def corpus(assembly: Assembly) -> Resource:
    return next(one for one in assembly.resources("storage", "S3::Bucket").values() if "BucketName" in one)


class TestSignIn:
    def test_people_are_added_by_administrators_to_a_group_for_each_role(self, console: Assembly) -> None:
        pool = console.only("console", "Cognito::UserPool")
        assert pool["AdminCreateUserConfig"]["AllowAdminCreateUserOnly"] is True
        assert (pool["MfaConfiguration"], pool["EnabledMfas"]) == ("OPTIONAL", ["SOFTWARE_TOKEN_MFA"])
        assert (pool["DeletionProtection"], pool["UserPoolTier"]) == ("ACTIVE", "LITE")
        groups = console.resources("console", "Cognito::UserPoolGroup").values()
        assert {group["GroupName"] for group in groups} == set(GROUPS)

    def test_the_page_has_no_secret_and_one_way_to_sign_in(self, console: Assembly) -> None:
        client = console.only("console", "Cognito::UserPoolClient")
        (made,) = console.resources("console", "CloudFront::Distribution")
        page = [f"https://<{made}.DomainName>/console/"]
        assert client["GenerateSecret"] is False
        assert client["AllowedOAuthFlows"] == ["code"]
        assert (client["CallbackURLs"], client["LogoutURLs"]) == (page, page)
        assert client["ExplicitAuthFlows"] == ["ALLOW_REFRESH_TOKEN_AUTH"]
        assert (client["IdTokenValidity"], client["RefreshTokenValidity"]) == (15, 720)

    def test_nobody_can_change_on_whose_behalf_they_ask(self, console: Assembly) -> None:
        client = console.only("console", "Cognito::UserPoolClient")
        tenant = {"custom:opxClientId", "custom:opxProjectId"}
        assert tenant < set(client["ReadAttributes"])
        assert client["WriteAttributes"] == ["locale"]
        assert "aws.cognito.signin.user.admin" not in client["AllowedOAuthScopes"]

    def test_with_another_issuer_no_pool_is_made(self, elsewhere: Assembly) -> None:
        assert not [r for _, _, r in elsewhere.all_resources() if "Cognito" in r["Type"]]
        authorizer = elsewhere.only("console", "ApiGatewayV2::Authorizer")["JwtConfiguration"]
        assert authorizer == {"Issuer": LOGIN, "Audience": ["page-1"]}

    @pytest.mark.parametrize(
        ("claim", "chosen"),
        [("cognito:groups", {}), ("groups", ELSEWHERE), ("roles", {**ELSEWHERE, "console_groups_claim": "roles"})],
    )
    def test_the_functions_know_the_claim_of_groups(self, claim: str, chosen: dict[str, str]) -> None:
        assert groups_claim(Deployment.from_context({"console": "true", **chosen})) == claim


class TestApi:
    def test_it_has_all_routes_for_tokens_of_the_page(self, console: Assembly) -> None:
        routes = console.resources("console", "ApiGatewayV2::Route").values()
        assert {route["RouteKey"] for route in routes} == set(load().routes)
        assert {route["AuthorizationType"] for route in routes} == {"JWT"}
        assert not [route for route in routes if "AuthorizationScopes" in route]
        (client,) = console.resources("console", "Cognito::UserPoolClient")
        (pool,) = console.resources("console", "Cognito::UserPool")
        authorizer = console.only("console", "ApiGatewayV2::Authorizer")["JwtConfiguration"]
        assert authorizer == {"Issuer": ISSUER.format(pool), "Audience": [f"<{client}>"]}

    def test_programs_keep_their_own_way_in(self, console: Assembly, default: Assembly) -> None:
        found = [one.resources("api", "ApiGatewayV2::Route") for one in (console, default)]
        assert found[0] == found[1]

    def test_the_functions_take_groups_for_roles(self, console: Assembly) -> None:
        for stack in ("api", "retrieval"):
            assert Settings.from_environ(environment(console, stack)).groups_claim == "cognito:groups"


@pytest.mark.parametrize(
    ("context", "words"),
    [
        ({"console_domain": DOMAIN, "console_certificate": CERTIFICATE}, "needs console=true"),
        ({"console": "true", "api_auth": "none"}, "api_auth=none leaves out"),
        ({"console": "true", "console_issuer": LOGIN}, "console_issuer and console_client go together"),
        ({"console": "true", "console_domain": DOMAIN}, "console_domain and console_certificate go together"),
        ({"console": "true", "console_zone": "Z1"}, "needs console_domain"),
        (
            {"console": "true", "console_issuer": "http://login", "console_client": "x"},
            "https address of an OIDC issuer",
        ),
        ({"console": "true", "console_scopes": "email"}, "openid first"),
        ({"console_certificate": CERTIFICATE.replace("us-east-1", "eu-central-1")}, "in us-east-1"),
        ({"console_web_acl": WEB_ACL.replace("global", "regional")}, "for CloudFront"),
        ({"console_price_class": "300"}, "100, 200, all"),
    ],
)
def test_choices_that_make_no_sense_are_refused(context: dict[str, str], words: str) -> None:
    with pytest.raises(ContextError, match=re.escape(words)):
        Deployment.from_context(context)
