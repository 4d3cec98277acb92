"""The managed knowledge base: created only on request, with the least rights."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from syrupy.assertion import SnapshotAssertion

from infra.configuration import ContextError
from infra.constructs.layer_contents import ROOT
from infra.constructs.managed_index import managed_schema
from opx.settings import Settings, env_name
from opx_aws.knowledge_base_objects import CHUNK_ATTRIBUTE, DAY_ATTRIBUTE, FILTER_ATTRIBUTES, LIST_ATTRIBUTES
from tests.infra.templates import Assembly, Resource, lint_findings, listed
from tests.infra.test_application import compact
from tests.infra.test_ingestion import BUCKET, pairs, rights

STACK = "knowledge-base"
COPIES = f"{BUCKET}/managed/*"
TITAN = "arn:<AWS::Partition>:bedrock:<AWS::Region>::foundation-model/amazon.titan-embed-text-v2:0"


@pytest.fixture(scope="session")
def private(make: Callable[..., Assembly]) -> Assembly:
    """With a key and a network of its own, on a classic collection."""
    return make(knowledge_base="bedrock", kms_key="own", vpc="true", ephemeral="true", search_generation="classic")


def role_rights(assembly: Assembly, role_start: str) -> set[tuple[str, str]]:
    """Pairs of action and resource of the role whose logical id starts so."""
    policies = assembly.resources(STACK, "IAM::Policy").values()
    (policy,) = (p for p in policies if any(role.strip("<>").startswith(role_start) for role in p["Roles"]))
    statements: list[Resource] = policy["PolicyDocument"]["Statement"]
    return {(action, arn) for s in statements for action in listed(s["Action"]) for arn in listed(s["Resource"])}


def queue(assembly: Assembly, name: str) -> Resource:
    (found,) = (q for q in assembly.resources(STACK, "SQS::Queue").values() if q["QueueName"] == name)
    return found


def test_by_default_there_is_none(default: Assembly) -> None:
    assert STACK not in default.templates
    assert not [name for _, name, resource in default.all_resources() if "Bedrock::KnowledgeBase" in resource["Type"]]
    assert "OPX_SYNC_QUEUE_URL" not in default.only("ingestion", "Lambda::Function")["Environment"]["Variables"]


def test_a_collection_of_someone_else_is_refused(make: Callable[..., Assembly]) -> None:
    arn = "arn:aws:aoss:eu-central-1:111111111111:collection/abc"
    with pytest.raises(ContextError, match="leave out search_endpoint"):
        make(knowledge_base="bedrock", search_endpoint="https://abc.aoss.amazonaws.com", search_arn=arn)


def test_data_source_is_the_folder_of_copies_and_nothing_is_cut_again(managed: Assembly) -> None:
    source = managed.only(STACK, "Bedrock::DataSource")
    assert source["DataSourceConfiguration"] == {
        "Type": "S3",
        "S3Configuration": {"BucketArn": BUCKET, "InclusionPrefixes": ["managed/"]},
    }
    ingestion = source["VectorIngestionConfiguration"]
    assert ingestion == {"ChunkingConfiguration": {"ChunkingStrategy": "NONE"}}


def test_knowledge_base_fills_an_index_of_its_own_with_fields_for_hybrid_search(managed: Assembly) -> None:
    storage = managed.only(STACK, "Bedrock::KnowledgeBase")["StorageConfiguration"]
    assert storage["Type"] == "OPENSEARCH_SERVERLESS"
    store = storage["OpensearchServerlessConfiguration"]
    indexes = managed.resources("search", "Custom::SearchIndex").values()
    (schema,) = (i["Body"] for i in indexes if i["IndexName"] == store["VectorIndexName"])
    properties = json.loads(schema)["mappings"]["properties"]
    fields_ = store["FieldMapping"]
    assert properties[fields_["TextField"]] == {"type": "text"}
    assert properties[fields_["MetadataField"]] == {"type": "text", "index": False}
    assert properties[fields_["VectorField"]]["dimension"] == 1024


@pytest.mark.parametrize("generation", ["nextgen", "classic"])
def test_no_type_of_an_attribute_is_guessed_from_its_first_value(generation: str) -> None:
    properties = managed_schema(generation)["mappings"]["properties"]
    for name in (*FILTER_ATTRIBUTES.values(), *LIST_ATTRIBUTES.values()):
        assert properties[name] == {"type": "text", "fields": {"keyword": {"type": "keyword"}}}
    assert properties[DAY_ATTRIBUTE] == {"type": "long"}
    assert properties[CHUNK_ATTRIBUTE]["type"] == "text"


def test_engine_is_named_only_where_it_can_be() -> None:
    assert '"engine": "faiss"' in json.dumps(managed_schema("classic"))
    assert "engine" not in json.dumps(managed_schema("nextgen"))


def test_knowledge_base_may_do_exactly_this(managed: Assembly) -> None:
    base = role_rights(managed, "Role")
    (collection,) = (resource for action, resource in base if action == "aoss:APIAccessAll")
    assert base == (
        pairs("s3:ListBucket", {BUCKET})
        | pairs("s3:GetObject", {COPIES})
        | pairs("bedrock:InvokeModel", {TITAN})
        | pairs("aoss:APIAccessAll", {collection})
    )


def test_knowledge_base_lists_only_its_folder(managed: Assembly) -> None:
    statements = [
        statement
        for policy in managed.resources(STACK, "IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
        if statement["Action"] == "s3:ListBucket"
    ]
    assert [s["Condition"] for s in statements] == [{"StringLike": {"s3:prefix": "managed/*"}}]


def test_role_is_for_knowledge_bases_of_this_account_alone(managed: Assembly) -> None:
    roles = managed.resources(STACK, "IAM::Role").values()
    (role,) = (r for r in roles if r["RoleName"] == "dev-opx-knowledge-base-<AWS::Region>")
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert trust["Principal"] == {"Service": "bedrock.amazonaws.com"}
    assert trust["Condition"] == {
        "StringEquals": {"aws:SourceAccount": "<AWS::AccountId>"},
        "ArnLike": {"aws:SourceArn": "arn:<AWS::Partition>:bedrock:<AWS::Region>:<AWS::AccountId>:knowledge-base/*"},
    }


def test_index_is_filled_by_the_knowledge_base_and_made_by_the_functions_for_that(managed: Assembly) -> None:
    allowed: dict[str, set[str]] = {}
    for policy in managed.resources("search", "OpenSearchServerless::AccessPolicy").values():
        (statement,) = json.loads(policy["Policy"])
        (rule,) = statement["Rules"]
        if rule["Resource"] in (["index/dev-opx-knowledge/opx-managed"], ["index/dev-opx-knowledge/*"]):
            for principal in statement["Principal"]:
                allowed[principal.rpartition("/")[2]] = {each.removeprefix("aoss:") for each in rule["Permission"]}
            assert len(policy["Name"]) <= 32 - len("0123456789") + len("dev")
    assert allowed["dev-opx-knowledge-base-<AWS::Region>"] == {"DescribeIndex", "ReadDocument", "WriteDocument"}
    makers = {role for role, may in allowed.items() if "CreateIndex" in may}
    assert makers == {"dev-opx-create-index-<AWS::Region>", "dev-opx-rebuild-index-<AWS::Region>"}


def test_own_index_cannot_be_reached_by_the_knowledge_base(managed: Assembly) -> None:
    for policy in managed.resources("search", "OpenSearchServerless::AccessPolicy").values():
        if "index/dev-opx-knowledge/opx-knowledge" in policy["Policy"]:
            assert "knowledge-base" not in policy["Policy"]


def test_ingestion_may_also_write_copies_and_enqueue_sync_requests(managed: Assembly, default: Assembly) -> None:
    requests = "arn:<AWS::Partition>:sqs:<AWS::Region>:<AWS::AccountId>:dev-opx-knowledge-sync"
    added = pairs("s3:DeleteObject PutObject", {COPIES}) | pairs("sqs:SendMessage", {requests})
    assert rights(managed, "ingestion") == rights(default, "ingestion") | added


def test_ingestion_knows_the_queue_that_is_made(managed: Assembly) -> None:
    variables = managed.only("ingestion", "Lambda::Function")["Environment"]["Variables"]
    name = variables["OPX_SYNC_QUEUE_URL"].rpartition("/")[2]
    assert queue(managed, name)["RedrivePolicy"]["maxReceiveCount"] == 100


def test_retrieval_may_search_the_knowledge_base_and_its_own_index_goes_on_answering(managed: Assembly) -> None:
    settings = Settings.from_environ(managed.only("retrieval", "Lambda::Function")["Environment"]["Variables"])
    assert settings.knowledge_base_id
    assert settings.search_engine == "own"
    (searched,) = (resource for action, resource in rights(managed, "retrieval") if action == "bedrock:Retrieve")
    assert "KnowledgeBaseArn" in searched


def test_the_knowledge_base_answers_if_the_deployment_selects_it(make: Callable[..., Assembly]) -> None:
    chosen = make(knowledge_base="bedrock", search_engine="bedrock_knowledge_base")
    settings = Settings.from_environ(chosen.only("retrieval", "Lambda::Function")["Environment"]["Variables"])
    assert settings.search_engine == "bedrock_knowledge_base"


def test_manage_function_has_the_settings_of_ingestion_that_decide_about_a_document(managed: Assembly) -> None:
    variables = []
    for stack, use_case in (("ingestion", "ingest-documents"), ("api", "manage-knowledge")):
        functions = managed.resources(stack, "Lambda::Function").values()
        (function,) = (found for found in functions if found["FunctionName"].endswith(use_case))
        variables.append(function["Environment"]["Variables"])
    taking_in, judging = variables
    deciding = {
        "OPX_SYNC_QUEUE_URL",
        "OPX_SEARCH_INDEX",
        "OPX_EMBEDDING_MODEL",
        "OPX_CHUNK_TOKENS",
        "OPX_CHUNK_OVERLAP",
    }
    assert {name: taking_in.get(name) for name in deciding} == {name: judging.get(name) for name in deciding}
    assert taking_in["OPX_SYNC_QUEUE_URL"]


def test_sync_function_may_list_and_start_jobs_and_nothing_else(managed: Assembly) -> None:
    may = role_rights(managed, "SyncKnowledgeBase")
    assert {action for action, _ in may if not action.startswith(("logs:", "sqs:", "xray:"))} == {
        "bedrock:ListIngestionJobs",
        "bedrock:StartIngestionJob",
    }
    assert {arn for action, arn in may if action.startswith("bedrock:")} == {"<KnowledgeBase.KnowledgeBaseArn>"}


def test_sync_function_knows_the_knowledge_base_and_its_data_source(managed: Assembly) -> None:
    variables = managed.only(STACK, "Lambda::Function")["Environment"]["Variables"]
    assert set(variables) <= {env_name(name) for name in Settings.__struct_fields__}
    assert variables["OPX_KNOWLEDGE_BASE_ID"] == "<KnowledgeBase.KnowledgeBaseId>"
    assert variables["OPX_DATA_SOURCE_ID"] == "<DataSource.DataSourceId>"


def test_sync_function_is_the_handler_of_its_folder(managed: Assembly) -> None:
    assert managed.only(STACK, "Lambda::Function")["Handler"] == "handler.handler"
    assert (ROOT / "lambdas" / "sync_knowledge_base" / "handler.py").is_file()


def test_requests_are_gathered_and_come_again_one_at_a_time(managed: Assembly) -> None:
    mapping = managed.only(STACK, "Lambda::EventSourceMapping")
    assert mapping["MaximumBatchingWindowInSeconds"] == 60
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    timeout = managed.only(STACK, "Lambda::Function")["Timeout"]
    hidden = queue(managed, "dev-opx-knowledge-sync")["VisibilityTimeout"]
    assert hidden >= 6 * timeout + mapping["MaximumBatchingWindowInSeconds"]


def test_failed_sync_requests_are_kept_for_two_weeks(managed: Assembly) -> None:
    assert queue(managed, "dev-opx-knowledge-sync-failed")["MessageRetentionPeriod"] == 14 * 86400


def test_key_and_network_let_the_service_in(private: Assembly) -> None:
    keys = {arn for action, arn in role_rights(private, "Role") if action == "kms:Decrypt"}
    assert len(keys) == 1
    policies = private.resources("search", "OpenSearchServerless::SecurityPolicy").values()
    (network,) = (json.loads(p["Policy"]) for p in policies if p["Type"] == "network")
    assert network[0]["SourceServices"] == ["bedrock.amazonaws.com"]


def test_cdk_nag_finds_nothing_that_has_no_reason(managed: Assembly, private: Assembly) -> None:
    assert managed.findings == []
    assert private.findings == []


@pytest.mark.parametrize("stack", [STACK, "search", "ingestion", "retrieval"])
def test_cfn_lint_finds_nothing(managed: Assembly, private: Assembly, stack: str) -> None:
    assert lint_findings(managed, stack) == []
    assert lint_findings(private, stack) == []


def test_the_template_is_as_it_was(managed: Assembly, snapshot: SnapshotAssertion) -> None:
    assert compact(managed, STACK) == snapshot
