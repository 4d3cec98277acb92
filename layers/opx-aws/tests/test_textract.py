"""Text of pages by Amazon Textract, and descriptions of pictures by models of Bedrock: requests checked against the
descriptions of the services, answers as the services document them."""

from __future__ import annotations

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from botocore.stub import Stubber

from opx.adapters.json_chat import INSTRUCTIONS, MAX_DESCRIPTION_TOKENS, question
from opx.adapters.openai_chat import OpenAiImageDescriber
from opx.errors import StoreUnavailableError, UnparsableDocumentError
from opx.ports.models import ParsingTools
from opx.settings import Settings
from opx.system import bootstrap
from opx_aws.clients import client
from opx_aws.pictures import MAX_PAGE_BYTES, BedrockImageDescriber, TextractOcr

MODEL = "eu.amazon.nova-lite-v1:0"


@pytest.fixture
def textract(aws_session: boto3.Session) -> tuple[TextractOcr, Stubber]:
    made = client("textract", session=aws_session, attempts=1)
    return TextractOcr(lambda: made), Stubber(made)


@pytest.fixture
def bedrock(aws_session: boto3.Session) -> tuple[BedrockImageDescriber, Stubber]:
    made = client("bedrock-runtime", session=aws_session, attempts=1)
    return BedrockImageDescriber(lambda: made, MODEL), Stubber(made)


def read(parts: tuple[TextractOcr, Stubber]) -> str:
    with parts[1]:
        return parts[0].read(b"picture", media_type="image/png")


def describe(parts: tuple[BedrockImageDescriber, Stubber], media_type: str = "image/png") -> str:
    with parts[1]:
        return parts[0].describe(b"picture", media_type=media_type, hint="plan.png")


def an_answer(*texts: str) -> dict[str, Any]:
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": text} for text in texts]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }


# -- Textract --------------------------------------------------------------------------------------------------------


def test_lines_of_a_page_are_its_text(textract: tuple[TextractOcr, Stubber]) -> None:
    blocks = [
        {"BlockType": "PAGE", "Id": "1"},
        {"BlockType": "LINE", "Id": "2", "Text": "Restart the broker"},
        {"BlockType": "WORD", "Id": "3", "Text": "Restart"},
        {"BlockType": "LINE", "Id": "4", "Text": "and wait."},
    ]
    textract[1].add_response("detect_document_text", {"Blocks": blocks}, {"Document": {"Bytes": b"picture"}})
    assert read(textract) == "Restart the broker\nand wait."


def test_a_page_without_text_gives_none(textract: tuple[TextractOcr, Stubber]) -> None:
    textract[1].add_response("detect_document_text", {"Blocks": [{"BlockType": "PAGE", "Id": "1"}]})
    assert read(textract) == ""


@pytest.mark.parametrize("code", ["BadDocumentException", "UnsupportedDocumentException"])
def test_a_picture_that_textract_refuses_can_not_be_read(textract: tuple[TextractOcr, Stubber], code: str) -> None:
    textract[1].add_client_error("detect_document_text", code, http_status_code=400)
    with pytest.raises(UnparsableDocumentError, match=code):
        read(textract)


@pytest.mark.parametrize("code", ["ProvisionedThroughputExceededException", "ThrottlingException"])
def test_a_throttled_textract_is_a_retryable_error(textract: tuple[TextractOcr, Stubber], code: str) -> None:
    textract[1].add_client_error("detect_document_text", code, http_status_code=400)
    with pytest.raises(StoreUnavailableError, match=code):
        read(textract)


def test_a_missing_permission_for_textract_is_reported_with_the_remedy(textract: tuple[TextractOcr, Stubber]) -> None:
    textract[1].add_client_error("detect_document_text", "AccessDeniedException", http_status_code=400)
    with pytest.raises(StoreUnavailableError, match=r"OPX_OCR=off.*the role may use it"):
        read(textract)


def test_a_mistake_of_ours_comes_through(textract: tuple[TextractOcr, Stubber]) -> None:
    textract[1].add_client_error("detect_document_text", "UnknownOperationException", http_status_code=400)
    with pytest.raises(ClientError):
        read(textract)


def test_a_picture_above_the_limit_is_not_sent(textract: tuple[TextractOcr, Stubber]) -> None:
    with textract[1], pytest.raises(UnparsableDocumentError, match="Textract takes 10,485,760"):
        textract[0].read(bytes(MAX_PAGE_BYTES + 1), media_type="image/png")


# -- Bedrock ---------------------------------------------------------------------------------------------------------


def test_a_model_describes_the_picture(bedrock: tuple[BedrockImageDescriber, Stubber]) -> None:
    picture = {"image": {"format": "png", "source": {"bytes": b"picture"}}}
    request = {
        "modelId": MODEL,
        "system": [{"text": INSTRUCTIONS}],
        "messages": [{"role": "user", "content": [picture, {"text": question("plan.png")}]}],
        "inferenceConfig": {"maxTokens": MAX_DESCRIPTION_TOKENS},
    }
    bedrock[1].add_response("converse", an_answer("Two boxes."), request)
    assert describe(bedrock) == "Two boxes."


def test_a_picture_that_a_model_refuses_is_not_described(bedrock: tuple[BedrockImageDescriber, Stubber]) -> None:
    bedrock[1].add_client_error("converse", "ValidationException", "quotes the file", http_status_code=400)
    with pytest.raises(UnparsableDocumentError, match=r"refused a picture: ValidationException\Z"):
        describe(bedrock)


def test_a_throttled_model_is_a_retryable_error(bedrock: tuple[BedrockImageDescriber, Stubber]) -> None:
    bedrock[1].add_client_error("converse", "ThrottlingException", http_status_code=429)
    with pytest.raises(StoreUnavailableError, match="ThrottlingException"):
        describe(bedrock)


def test_a_format_that_bedrock_does_not_take_is_not_sent(bedrock: tuple[BedrockImageDescriber, Stubber]) -> None:
    with pytest.raises(UnparsableDocumentError, match="image/tiff"):
        describe(bedrock, "image/tiff")


# -- which tools a system has ----------------------------------------------------------------------------------------


def tools_of(session: boto3.Session, **settings: Any) -> ParsingTools:
    return bootstrap(Settings(backend="aws", **settings), aws=session.client).ports.parsing_tools()


def test_on_aws_textract_reads_pages_and_nobody_describes_pictures_by_default(aws_session: boto3.Session) -> None:
    tools = tools_of(aws_session)
    assert isinstance(tools.ocr, TextractOcr)
    assert tools.describer is None


def test_settings_choose_the_tools(aws_session: boto3.Session) -> None:
    tools = tools_of(aws_session, ocr="off", vision_model=MODEL, parse_pages=7)
    assert tools.ocr is None
    assert isinstance(tools.describer, BedrockImageDescriber)
    assert tools.limits.pages == 7


def test_a_model_with_an_address_is_called_there(aws_session: boto3.Session) -> None:
    tools = tools_of(aws_session, vision_model="seer", vision_url="http://127.0.0.1:9/v1")
    assert isinstance(tools.describer, OpenAiImageDescriber)
