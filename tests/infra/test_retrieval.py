"""The function that agents ask."""

from __future__ import annotations

from opx.tables import DOCUMENTS, PROJECTS
from tests.infra.templates import Assembly
from tests.infra.test_ingestion import pairs, rights, table_arns


def test_the_function_may_read_and_do_nothing_else(default: Assembly) -> None:
    logs = f"<{next(iter(default.resources('retrieval', 'Logs::LogGroup')))}.Arn>"
    collection = next(resource for action, resource in rights(default, "retrieval") if action.startswith("aoss:"))
    model = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"
    assert rights(default, "retrieval") == (
        pairs("logs:CreateLogStream PutLogEvents", {logs})
        | pairs("dynamodb:BatchGetItem GetItem Query", table_arns(DOCUMENTS, PROJECTS))
        | pairs("aoss:APIAccessAll", {collection})
        | pairs("bedrock:InvokeModel", {model})
    )


def test_agents_of_this_account_alone_may_call_the_function(default: Assembly) -> None:
    permission = default.only("retrieval", "Lambda::Permission")
    assert permission["Principal"] == "bedrock.amazonaws.com"
    assert permission["Action"] == "lambda:InvokeFunction"
    assert permission["SourceAccount"] == "<AWS::AccountId>"
    assert permission["SourceArn"] == "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:agent/*"


def test_the_function_runs_the_handler_of_its_folder_on_the_lean_layer(default: Assembly) -> None:
    found = default.only("retrieval", "Lambda::Function")
    assert found["Handler"] == "handler.handler"
    assert len(found["Layers"]) == 2
    descriptions = {layer["Description"] for layer in default.resources("retrieval", "Lambda::LayerVersion").values()}
    assert descriptions == {"The opx library", "Packages of api.txt"}


def test_the_functions_name_is_an_output(default: Assembly) -> None:
    (function,) = default.resources("retrieval", "Lambda::Function")
    outputs = default.templates["retrieval"]["Outputs"]
    assert outputs["FunctionArn"]["Value"] == f"<{function}.Arn>"
    assert outputs["FunctionName"]["Value"] == f"<{function}>"
