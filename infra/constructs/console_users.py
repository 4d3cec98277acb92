"""The people who may sign in to the console: a user pool made here, or an OIDC issuer that exists."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from aws_cdk import Aws, Duration
from aws_cdk import aws_cognito as cognito
from constructs import Construct

from infra.constructs.acknowledgements import acknowledge
from infra.constructs.keeping import removal_policy
from infra.names import Names
from opx.domain.policy import GROUPS
from opx.edges.claims import CLIENT_CLAIMS, PROJECT_CLAIMS

TOKEN_MINUTES, SESSION_HOURS = 15, 12
"""A token's life, which is how long a role that was taken away still holds, and that of a session without a new sign-in."""

_ATTRIBUTES = tuple(claims[-1].removeprefix("custom:") for claims in (CLIENT_CLAIMS, PROJECT_CLAIMS))


@dataclass(frozen=True, slots=True)
class SignIn:
    """An issuer of tokens as the page knows it. `hosts` are the origins that the page sends requests to; `sign_out` is the
    address that ends a session, where it isn't the one that OIDC says."""

    issuer: str
    client_id: str
    scopes: str
    hosts: tuple[str, ...]
    sign_out: str = ""

    @property
    def settings(self) -> dict[str, str]:
        """The page's file of settings."""
        found = {"issuer": self.issuer, "clientId": self.client_id, "scope": self.scopes, "signOut": self.sign_out}
        return {name: value for name, value in found.items() if value}


def existing_sign_in(names: Names) -> SignIn:
    """The issuer that the deployment names."""
    chosen = names.deployment
    address = urlsplit(chosen.console_issuer)
    host = f"{address.scheme}://{address.netloc}"
    return SignIn(chosen.console_issuer, chosen.console_client, chosen.console_scopes, (host,))


class ConsoleUsers(Construct):
    """A user pool whose members administrators create, with a group for each role, and a page to sign in at."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self._scopes = names.deployment.console_scopes
        self.pool = self._pool(names)
        self._prefix = f"{names.system}-{Aws.ACCOUNT_ID}"  # unique among all pools of the region
        self.pool.add_domain("Domain", cognito_domain=cognito.CognitoDomainOptions(domain_prefix=self._prefix))
        for group, gives in GROUPS.items():
            cognito.CfnUserPoolGroup(
                self,
                group.title().replace("-", ""),
                user_pool_id=self.pool.user_pool_id,
                group_name=group,
                description=f"Has the roles of tokens with the scope {gives}",
            )

    @property
    def sign_in_host(self) -> str:
        return f"https://{self._prefix}.auth.{Aws.REGION}.amazoncognito.com"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Origins that a page sends requests to: that of the issuer, and that of its tokens."""
        return (f"https://cognito-idp.{Aws.REGION}.{Aws.URL_SUFFIX}", self.sign_in_host)

    def sign_in(self, page: str) -> SignIn:
        """The pool for the page at this address."""
        client = self.pool.add_client(
            "Page",
            generate_secret=False,  # a page can't keep one
            o_auth=cognito.OAuthSettings(
                flows=cognito.OAuthFlows(authorization_code_grant=True),
                scopes=[cognito.OAuthScope.custom(scope) for scope in self._scopes.split()],
                callback_urls=[page],
                logout_urls=[page],
            ),
            supported_identity_providers=[cognito.UserPoolClientIdentityProvider.COGNITO],
            id_token_validity=Duration.minutes(TOKEN_MINUTES),
            access_token_validity=Duration.minutes(TOKEN_MINUTES),
            refresh_token_validity=Duration.hours(SESSION_HOURS),
            prevent_user_existence_errors=True,
            read_attributes=cognito.ClientAttributes()
            .with_standard_attributes(email=True)
            .with_custom_attributes(*_ATTRIBUTES),
            # Without any, a member could write all: client and project decide on what it sees.
            write_attributes=cognito.ClientAttributes().with_standard_attributes(locale=True),
        )
        resource = client.node.default_child
        assert isinstance(resource, cognito.CfnUserPoolClient)
        resource.explicit_auth_flows = ["ALLOW_REFRESH_TOKEN_AUTH"]  # without any, Cognito allows sign-in past its page
        issuer = f"{self.hosts[0]}/{self.pool.user_pool_id}"
        return SignIn(issuer, client.user_pool_client_id, self._scopes, self.hosts, f"{self.sign_in_host}/logout")

    def _pool(self, names: Names) -> cognito.UserPool:
        ephemeral = names.deployment.ephemeral
        pool = cognito.UserPool(
            self,
            "Pool",
            user_pool_name=names.system,
            feature_plan=cognito.FeaturePlan.LITE,  # has all that is used here, and is the cheapest
            self_sign_up_enabled=False,
            sign_in_aliases=cognito.SignInAliases(email=True),
            sign_in_case_sensitive=False,
            account_recovery=cognito.AccountRecovery.EMAIL_ONLY,
            custom_attributes={name: cognito.StringAttribute(mutable=True) for name in _ATTRIBUTES},
            password_policy=cognito.PasswordPolicy(
                min_length=14,
                require_lowercase=True,
                require_uppercase=True,
                require_digits=True,
                require_symbols=True,
                temp_password_validity=Duration.days(3),
            ),
            mfa=cognito.Mfa.OPTIONAL,
            mfa_second_factor=cognito.MfaSecondFactor(otp=True, sms=False),
            deletion_protection=not ephemeral,
            removal_policy=removal_policy(ephemeral=ephemeral),
        )
        acknowledge(pool, "COG2", "members add a second factor themselves; an issuer that requires one can be given")
        acknowledge(pool, "COG8", "the plan Plus is charged by the member; nobody can sign up by themselves")
        return pool
