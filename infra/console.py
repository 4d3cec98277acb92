"""The console for browsers: its files, sign-in, and an HTTP API of its own for those who signed in."""

from __future__ import annotations

from pathlib import Path

from aws_cdk import CfnOutput, Environment, Stack
from aws_cdk import aws_apigatewayv2 as gateway
from constructs import Construct

from infra.api import BURST, RATE, REFUSED, add_authorizer, add_routes
from infra.configuration import ContextError
from infra.constructs.console_pages import ConsolePages, host_of
from infra.constructs.console_users import ConsoleUsers, existing_sign_in
from infra.constructs.http_stage import add_stage
from infra.constructs.layer_contents import LAYERS
from infra.names import Names
from opx.operations.registry import Function

FILES = LAYERS / "opx-serve" / "python" / "opx_serve" / "console_files"
"""Files of the console as `make console` builds them."""


class ConsoleStack(Stack):
    """An API with the same routes and functions as that of the stack `api`, whose callers signed in at a page.

    It is another API, as the authorizer needs the id of the page's client, the client the distribution's address, and the
    distribution the API's: in two stacks that would be a circle. So programs keep their own way in, too.
    """

    def __init__(
        self, scope: Construct, stack_id: str, *, names: Names, retrieve_arn: str, env: Environment, files: Path = FILES
    ) -> None:
        super().__init__(scope, stack_id, env=env, description="OPX Knowledge: console")
        if not (files / "index.html").is_file():
            raise ContextError(
                "context console=true needs the console's files, which `make console` builds (needs node)"
            )
        self.api = gateway.CfnApi(
            self,
            "HttpApi",
            name=names.stack("console"),
            description="Questions and documents of OPX Knowledge, for the console",
            protocol_type="HTTP",
        )
        users = None if names.deployment.console_issuer else ConsoleUsers(self, "Users", names=names)
        hosts = users.hosts if users else existing_sign_in(names).hosts
        self.pages = ConsolePages(
            self, "Pages", names=names, api_domain=host_of(self.api.attr_api_endpoint), connects=hosts
        )
        sign_in = users.sign_in(self.pages.address) if users else existing_sign_in(names)
        self.pages.fill(files, sign_in.settings)
        tokens = add_authorizer(self, self.api, sign_in.issuer, [sign_in.client_id])
        called = {
            Function.RETRIEVE: retrieve_arn,
            Function.MANAGE: names.function_arn(Function.MANAGE.value),
        }
        add_routes(self, self.api, called, tokens, groups_are_roles=True)
        add_stage(self, self.api, names=names, kind="console", rate=RATE, burst=BURST, also_logged=REFUSED)
        CfnOutput(self, "ConsoleUrl", value=self.pages.address)
        if users:
            CfnOutput(self, "UserPool", value=users.pool.user_pool_id)
