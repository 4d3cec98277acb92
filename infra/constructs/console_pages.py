"""The console's files in a bucket, and the distribution that serves them beside the API at one address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from aws_cdk import Aws, Duration, Fn, RemovalPolicy, Stack
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_route53 as route53
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_deployment as deployment
from constructs import Construct

from infra.constructs import rights
from infra.constructs.acknowledgements import acknowledge, acknowledge_wildcard
from infra.constructs.keeping import removal_policy
from infra.constructs.use_case_function import LOG_RETENTION
from infra.names import Names
from opx_serve.console import FOREVER, HEADERS, PREFIX, policy

ADDRESSES = Path(__file__).with_name("console_addresses.js")
SETTINGS = "settings.json"
ASSETS = "assets/*"
AGAIN = "no-cache"
"""For files whose names stay: browsers ask for them again."""

_PRICE_CLASSES = {
    "100": cloudfront.PriceClass.PRICE_CLASS_100,
    "200": cloudfront.PriceClass.PRICE_CLASS_200,
    "all": cloudfront.PriceClass.PRICE_CLASS_ALL,
}
_CLOUDFRONTS_ZONE = "Z2FDTNDATAQYW2"
"""The hosted zone of all distributions, for alias records."""

_KEPT_LOGS = Duration.days(90)
_UPLOADER = "Custom::CDKBucketDeployment8693BB64968944B69AAFB0CC9EB8756C512MiB"
"""The construct of CDK's function that copies files into buckets, one a stack."""


class ConsolePages(Construct):
    """A private bucket and a distribution. The page is below `/console/`, as with `opx console`, and the API everywhere else:
    the page's requests go to its own origin, and the API needs no CORS.

    `connects` are the further origins that the page sends requests to.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, names: Names, api_domain: str, connects: Sequence[str]
    ) -> None:
        super().__init__(scope, construct_id)
        self._names = names
        self.files = s3.Bucket(
            self,
            "Files",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            removal_policy=RemovalPolicy.DESTROY,  # a deployment fills it again
            auto_delete_objects=True,
        )
        acknowledge(self.files, "S1", "the distribution alone may read it, and its log is a choice of the deployment")
        self._logs = logs.LogGroup(self, "Logs", retention=LOG_RETENTION, removal_policy=RemovalPolicy.DESTROY)
        self.role = self._uploading_role()
        """The role of the function that copies the files."""
        self.distribution = self._distribution(api_domain, self._headers(connects))
        self.host = names.deployment.console_domain or self.distribution.distribution_domain_name
        self._enter_domain()

    @property
    def address(self) -> str:
        """The page's address, to which sign-ins come back."""
        return f"https://{self.host}{PREFIX}"

    def fill(self, folder: Path, settings: Mapping[str, str]) -> None:
        """Copies the built files, and the settings beside them. Files whose names change with their content are kept by
        browsers, and stay in the bucket for pages that are open."""
        built = deployment.Source.asset(str(folder))
        assets = self._copied("Assets", [built], FOREVER, exclude=["*"], include=[ASSETS])
        written = deployment.Source.json_data(SETTINGS, dict(settings))
        page = self._copied("Page", [built, written], AGAIN, exclude=[ASSETS])
        page.node.add_dependency(assets)  # the page names them
        self._acknowledge_uploads(Stack.of(self))

    def _copied(
        self,
        name: str,
        sources: Sequence[deployment.ISource],
        caching: str,
        *,
        exclude: Sequence[str],
        include: Sequence[str] = (),
    ) -> deployment.BucketDeployment:
        return deployment.BucketDeployment(
            self,
            name,
            sources=sources,
            destination_bucket=self.files,
            destination_key_prefix=PREFIX.strip("/"),
            cache_control=[deployment.CacheControl.from_string(caching)],
            exclude=exclude,
            include=include or None,
            prune=False,
            role=self.role,
            log_group=self._logs,
            memory_limit=512,
        )

    def _acknowledge_uploads(self, stack: Stack) -> None:
        reason = "CDK's function reads its bucket of assets, and writes any object of this one"
        for action in ("Abort", "DeleteObject", "GetBucket", "GetObject", "List"):
            acknowledge(self.role, f"IAM5[Action::s3:{action}*]", reason)
        assets = f"cdk-{stack.synthesizer.bootstrap_qualifier}-assets-{stack.account}-{stack.region}"
        acknowledge_wildcard(self.role, f"arn:{Aws.PARTITION}:s3:::{assets}/*", reason)
        acknowledge_wildcard(self.role, self.files.arn_for_objects("*"), reason)
        acknowledge(stack.node.find_child(_UPLOADER), "L1", "CDK chooses the version of Python for its function")

    def _uploading_role(self) -> iam.Role:
        role = iam.Role(self, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        role.add_to_policy(rights.allow(["logs:CreateLogStream", "logs:PutLogEvents"], self._logs.log_group_arn))
        return role

    def _distribution(self, api_domain: str, headers: cloudfront.ResponseHeadersPolicy) -> cloudfront.Distribution:
        chosen = self._names.deployment
        addresses = cloudfront.Function(
            self,
            "Addresses",
            function_name=f"{self._names.system}-console-{Aws.REGION}",  # one for all regions of an account
            code=cloudfront.FunctionCode.from_inline(ADDRESSES.read_text()),
            runtime=cloudfront.FunctionRuntime.JS_2_0,
            comment="Index pages of the console",
        )
        common = {
            "viewer_protocol_policy": cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS,
            "response_headers_policy": headers,
            "function_associations": [
                cloudfront.FunctionAssociation(
                    function=addresses, event_type=cloudfront.FunctionEventType.VIEWER_REQUEST
                )
            ],
        }
        domain = chosen.console_domain
        made = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"Console of {self._names.system}",
            default_behavior=cloudfront.BehaviorOptions(
                origin=origins.HttpOrigin(
                    api_domain,
                    protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
                    origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
                ),
                allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                # Of the headers, all but the host: the token is one of them.
                origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                **common,  # type: ignore[arg-type]
            ),
            additional_behaviors={
                f"{PREFIX}*": cloudfront.BehaviorOptions(
                    origin=origins.S3BucketOrigin.with_origin_access_control(self.files),
                    cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
                    compress=True,
                    **common,  # type: ignore[arg-type]
                )
            },
            domain_names=[domain] if domain else None,
            certificate=self._certificate(),
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            price_class=_PRICE_CLASSES[chosen.console_price_class],
            web_acl_id=chosen.console_web_acl or None,
            log_bucket=self._log_bucket(),
        )
        self._acknowledge_choices(made)
        return made

    def _certificate(self) -> acm.ICertificate | None:
        arn = self._names.deployment.console_certificate
        return acm.Certificate.from_certificate_arn(self, "Certificate", arn) if arn else None

    def _log_bucket(self) -> s3.Bucket | None:
        """A bucket for CloudFront's log, if that is chosen: it has addresses of callers, and queries in those of requests."""
        if not self._names.deployment.console_logs:
            return None
        found = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_PREFERRED,  # CloudFront writes by an ACL
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            lifecycle_rules=[s3.LifecycleRule(expiration=_KEPT_LOGS)],
            removal_policy=removal_policy(ephemeral=self._names.deployment.ephemeral),
            auto_delete_objects=self._names.deployment.ephemeral,
        )
        acknowledge(found, "S1", "it has logs only")
        return found

    def _acknowledge_choices(self, made: cloudfront.Distribution) -> None:
        chosen = self._names.deployment
        acknowledge(made, "CFR1", "people travel; where they sign in from is the issuer's to decide")
        if not chosen.console_web_acl:
            acknowledge(made, "CFR2", "a web ACL costs by the month; console_web_acl takes one")
        if not chosen.console_logs:
            acknowledge(made, "CFR3", "the API has an access log; CloudFront's has people's addresses, and is a choice")
        if not chosen.console_domain:
            acknowledge(made, "CFR4", "CloudFront's own certificate fixes its protocols; console_domain has TLS 1.2")

    def _headers(self, connects: Sequence[str]) -> cloudfront.ResponseHeadersPolicy:
        """The headers that `opx console` sends, and HSTS."""
        names = ("cross-origin-opener-policy", "cross-origin-resource-policy")
        custom = [cloudfront.ResponseCustomHeader(header=name, value=HEADERS[name], override=True) for name in names]
        bucket = f"https://{self._names.corpus_bucket}.s3.{Aws.REGION}.{Aws.URL_SUFFIX}"  # files go straight there
        return cloudfront.ResponseHeadersPolicy(
            self,
            "Headers",
            comment="Security headers of the console",
            custom_headers_behavior=cloudfront.ResponseCustomHeadersBehavior(custom_headers=custom),
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                    content_security_policy=policy(bucket, *connects), override=True
                ),
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
                frame_options=cloudfront.ResponseHeadersFrameOptions(
                    frame_option=cloudfront.HeadersFrameOption.DENY, override=True
                ),
                referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                    referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
                ),
                strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                    access_control_max_age=Duration.days(365), include_subdomains=False, override=True
                ),
            ),
        )

    def _enter_domain(self) -> None:
        """Enters the domain in its hosted zone, if that is given."""
        chosen = self._names.deployment
        if not chosen.console_zone:
            return
        target = route53.CfnRecordSet.AliasTargetProperty(
            dns_name=self.distribution.distribution_domain_name, hosted_zone_id=_CLOUDFRONTS_ZONE
        )
        for kind in ("A", "AAAA"):
            route53.CfnRecordSet(
                self,
                f"Record{kind}",
                hosted_zone_id=chosen.console_zone,
                name=chosen.console_domain,
                type=kind,
                alias_target=target,
            )


def host_of(api_endpoint: str) -> str:
    """The host in the address of an API, which is known when it is made."""
    return Fn.select(2, Fn.split("/", api_endpoint))
