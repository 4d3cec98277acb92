"""API Gateway's requests and replies: recognition, decoding, and the caller's identity."""

from __future__ import annotations

import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest

from opx.domain.requests import RequestError
from opx.domain.scopes import Identity
from opx.edges.http import (
    MAX_BODY_BYTES,
    MAX_REPLY_BYTES,
    body_of,
    caller_of,
    is_http,
    json_object,
    pairs_of,
    path_of,
    reply,
)
from opx.errors import ForbiddenError, TooLargeError
from opx.operations.context import Caller
from tests.support.agent_calls import a_function_event, an_api_event
from tests.support.api_requests import ROLE, a_request, a_token
from tests.support.fakes import FakeContext

CONFIGURED = Identity("configured", "shop")


def json_of(event: dict[str, Any]) -> dict[str, object]:
    return json_object({name.lower(): text for name, text in event["headers"].items()}["content-type"], body_of(event))


class TestRecognition:
    def test_a_request_is_one(self) -> None:
        assert is_http(a_request("get_status"), FakeContext())

    def test_a_gateways_call_is_no_http_request_whatever_a_model_wrote_into_it(self) -> None:
        assert not is_http(a_request("get_status"), FakeContext.of_gateway("search_runbooks"))
        assert not is_http(a_request("get_status"), FakeContext(SimpleNamespace(custom=None)))

    @pytest.mark.parametrize("event", [a_function_event("search_runbooks"), an_api_event("/search_runbooks")])
    def test_an_action_groups_call_is_no_http_request(self, event: dict[str, Any]) -> None:
        assert not is_http(event, FakeContext())
        assert not is_http(a_request("get_status") | event, FakeContext())

    @pytest.mark.parametrize(
        "change",
        [
            {"version": "1.0"},
            {"version": None},
            {"routeKey": None},
            {"requestContext": None},
            {"requestContext": {}},
            {"requestContext": {"http": "GET"}},
        ],
    )
    def test_an_event_that_lacks_a_part_is_no_http_request(self, change: dict[str, Any]) -> None:
        assert not is_http(a_request("get_status") | change, FakeContext())

    @pytest.mark.parametrize("event", [None, [], "GET /status", 5, {}])
    def test_any_other_event_is_no_http_request(self, event: object) -> None:
        assert not is_http(event, FakeContext())


class TestRequest:
    def test_parameters_are_decoded_once_and_kept_apart(self) -> None:
        event = a_request("search", query="q=disk+full%3F&tag=a%2Cb&tag=%C3%BC&tag=", kbId="default")
        assert tuple(pairs_of(event)) == (("q", "disk full?"), ("tag", "a,b"), ("tag", "ü"), ("tag", ""))

    def test_parameters_parsed_by_api_gateway_are_not_read(self) -> None:
        event = a_request("search", query="q=1", kbId="default") | {"queryStringParameters": {"q": "2", "tier": "x"}}
        assert pairs_of(event) == [("q", "1")]

    @pytest.mark.parametrize(
        ("sent", "read"), [("runbooks%2Fprocedures", "runbooks/procedures"), ("runbooks/procedures",) * 2]
    )
    def test_path_is_read_whether_it_arrives_decoded_or_not(self, sent: str, read: str) -> None:
        event = a_request("ingest", body={}, tier="internal", category=sent)
        assert path_of(event) == {"tier": "internal", "category": read}

    @pytest.mark.parametrize("query", ["q=%ff", "q=%C3", "&".join(["a=1"] * 1001)])
    def test_malformed_parameters_are_refused(self, query: str) -> None:
        with pytest.raises(RequestError, match="percent-encoded UTF-8"):
            pairs_of(a_request("search", query=query, kbId="default"))

    def test_malformed_path_is_refused(self) -> None:
        with pytest.raises(RequestError, match="percent-encoded UTF-8"):
            path_of(a_request("get_document", documentId="%ff"))

    def test_a_body_in_base64_is_the_same(self) -> None:
        text = json.dumps({"query": "größe"})
        assert body_of(a_request("query", body=text, encoded=True)) == text.encode()
        assert body_of(a_request("query", body=text)) == text.encode()

    @pytest.mark.parametrize("text", ["%%%", "YQ", "ü"])
    def test_broken_base64_is_refused(self, text: str) -> None:
        with pytest.raises(RequestError, match="can't be decoded"):
            body_of(a_request("query") | {"body": text, "isBase64Encoded": True})

    def test_the_largest_body_is_taken_and_one_byte_more_is_not(self) -> None:
        assert len(body_of(a_request("query", body="x" * MAX_BODY_BYTES))) == MAX_BODY_BYTES
        with pytest.raises(TooLargeError):
            body_of(a_request("query", body="x" * (MAX_BODY_BYTES + 1)))

    def test_the_decoded_size_of_a_body_is_limited(self) -> None:
        text = base64.b64encode(b"x" * MAX_BODY_BYTES).decode()
        event = a_request("query") | {"isBase64Encoded": True}
        assert len(body_of(event | {"body": text})) == MAX_BODY_BYTES
        with pytest.raises(TooLargeError):
            body_of(event | {"body": base64.b64encode(b"x" * (MAX_BODY_BYTES + 1)).decode()})

    @pytest.mark.parametrize(
        "kind", ["application/json", "Application/JSON; charset=utf-8", "application/json ;charset=UTF-8"]
    )
    def test_json_is_read(self, kind: str) -> None:
        event = a_request("query", body='{"query": "ü"}')
        del event["headers"]["content-type"]
        event["headers"]["Content-Type"] = kind
        assert json_of(event) == {"query": "ü"}

    @pytest.mark.parametrize("kind", ["text/plain", "", "application/x-www-form-urlencoded", "application/jsonp"])
    def test_a_body_of_another_type_is_refused(self, kind: str) -> None:
        with pytest.raises(RequestError, match="must be application/json"):
            json_of(a_request("query", body="{}", headers={"content-type": kind}))

    @pytest.mark.parametrize(
        ("body", "message"),
        [
            ("", "the body is not JSON"),
            ("{", "the body is not JSON"),
            ("[]", "the body is not a JSON object"),
            ("null", "the body is not a JSON object"),
            ('{"a": NaN}', "the body is not JSON"),
            ('{"a": ' + "9" * 5000 + "}", "the body is not JSON"),
            ("[" * 200_000, "the body is nested too deeply"),
        ],
    )
    def test_a_body_other_than_a_json_object_is_refused(self, body: str, message: str) -> None:
        with pytest.raises(RequestError, match=message):
            json_of(a_request("query", body=body))

    def test_a_body_that_is_not_utf_8_is_refused(self) -> None:
        event = a_request("query") | {"body": base64.b64encode(b'{"a": "\xff"}').decode(), "isBase64Encoded": True}
        with pytest.raises(RequestError, match="the body is not JSON"):
            json_of(event)


class TestCaller:
    def test_a_role_has_the_configured_identity(self) -> None:
        assert caller_of(a_request("get_status", caller=ROLE), CONFIGURED) == Caller(CONFIGURED)

    def test_a_token_has_the_identity_of_its_claims(self) -> None:
        event = a_request("get_status", caller=a_token("acme", "shop", "openid opx/write"))
        assert caller_of(event, CONFIGURED) == Caller(
            Identity("acme", "shop"), token_scopes=frozenset({"openid", "opx/write"})
        )

    def test_claims_of_a_user_pool_count_as_well(self) -> None:
        token = a_token(**{"custom:opxClientId": "acme", "custom:opxProjectId": "shop"})
        assert caller_of(a_request("get_status", caller=token), CONFIGURED).identity == Identity("acme", "shop")

    def test_a_token_without_a_client_is_not_the_configured_client(self) -> None:
        assert caller_of(a_request("get_status", caller=a_token()), CONFIGURED).identity == Identity()

    @pytest.mark.parametrize("scopes", ["opx/write opx/admin", "[opx/write opx/admin]", "[opx/write, opx/admin]"])
    def test_scopes_are_read_from_a_text_and_from_what_api_gateway_makes_of_a_list(self, scopes: str) -> None:
        for token in (a_token(scopes=scopes), a_token(scopes="", scp=scopes)):
            caller = caller_of(a_request("get_status", caller=token), CONFIGURED)
            assert caller.token_scopes == frozenset({"opx/write", "opx/admin"})

    @pytest.mark.parametrize(
        "groups", ["[opx-curator opx-writer staff]", "opx-curator opx-writer", ["opx-curator", "opx-writer"]]
    )
    def test_groups_give_roles_where_a_claim_of_them_is_configured(self, groups: Any) -> None:
        event = a_request("get_status", caller=a_token(scopes="", **{"cognito:groups": groups}))
        assert caller_of(event, CONFIGURED, "cognito:groups").token_scopes == frozenset({"opx/curate", "opx/write"})
        assert caller_of(event, CONFIGURED).token_scopes == frozenset()

    def test_scopes_of_programs_give_roles_beside_groups(self) -> None:
        event = a_request("get_status", caller=a_token(scopes="opx/write", groups="[opx-reader]"))
        assert caller_of(event, CONFIGURED, "groups").token_scopes == frozenset({"opx/write", "opx/read"})
        assert caller_of(a_request("get_status", caller=a_token()), CONFIGURED, "groups").token_scopes == frozenset(
            {"opx/write"}
        )

    @pytest.mark.parametrize(
        "groups",
        [
            None,
            "",
            "[]",
            "[staff]",
            "[opx-root]",
            "[OPX-ADMIN]",
            "admin",
            "opx/admin",
            ["opx-admin staff"],
            {"opx-admin": 1},
        ],
    )
    def test_without_a_known_group_a_person_has_no_role_at_all(self, groups: Any) -> None:
        event = a_request("get_status", caller=a_token(scopes="openid email", groups=groups))
        with pytest.raises(ForbiddenError, match="none of the groups that give a role here: opx-reader"):
            caller_of(event, CONFIGURED, "groups")

    @pytest.mark.parametrize(
        "authorizer",
        [
            None,
            {},
            {"iam": None},
            {"jwt": None},
            {"jwt": "alice"},
            {"lambda": {"client": "acme"}},
            {**ROLE, **a_token("acme")},
            {"jwt": {"claims": None}},
            {"jwt": {"scopes": ["opx/admin"]}},
        ],
    )
    def test_a_request_that_no_authorizer_vouches_for_is_refused(self, authorizer: dict[str, Any] | None) -> None:
        with pytest.raises(ForbiddenError):
            caller_of(a_request("get_status", caller=authorizer), CONFIGURED)

    @pytest.mark.parametrize(
        "claims",
        [
            {"opx_client_id": "acme", "custom:opxClientId": "other"},
            {"opx_client_id": ["acme"]},
            {"opx_client_id": None},
            {"opx_client_id": "acme/projects/shop"},
            {"opx_client_id": "*"},
            {"opx_project_id": "shop"},
        ],
    )
    def test_malformed_claims_are_refused(self, claims: dict[str, Any]) -> None:
        with pytest.raises(ForbiddenError):
            caller_of(a_request("get_status", caller=a_token(**claims)), CONFIGURED)


class TestReply:
    def test_it_has_api_gateways_form(self) -> None:
        assert reply(200, {"title": "Größe"}, headers={"retry-after": "5"}) == {
            "statusCode": 200,
            "headers": {
                "content-type": "application/json; charset=utf-8",
                "cache-control": "no-store",
                "retry-after": "5",
            },
            "body": '{"title":"Größe"}',
            "isBase64Encoded": False,
        }

    def test_half_a_surrogate_pair_can_be_sent(self) -> None:
        body = reply(200, {"content": "a \ud800 ü"})["body"]
        assert json.loads(body.encode("utf-8")) == {"content": "a \ud800 ü"}

    @pytest.mark.parametrize("character", ["x", '"', "\n", "ü", "語", "🔥"])
    def test_a_reply_above_lambdas_limit_is_refused(self, character: str) -> None:
        """Whatever a character becomes on its way."""
        written = len(json.dumps(json.dumps(character, ensure_ascii=False))) - 6
        most = (MAX_REPLY_BYTES - 100) // written
        assert len(json.dumps(reply(200, {"x": character * most}))) < 6 * 1024 * 1024
        with pytest.raises(TooLargeError):
            reply(200, {"x": character * (most + 200)})
