"""Types of what a plugin may use: the module imports each name when it is first used."""

from opx.connectors.connector import Connector as Connector
from opx.connectors.connector import Options as Options
from opx.connectors.connector import SourceTools as SourceTools
from opx.connectors.connector import page_of as page_of
from opx.connectors.deliveries import Delivery as Delivery
from opx.connectors.deliveries import DocumentUpdate as DocumentUpdate
from opx.connectors.registry import Preset as Preset
from opx.connectors.webhooks.formats import WebhookFormat as WebhookFormat
from opx.connectors.webhooks.signatures import HubSignature as HubSignature
from opx.domain.policy import Action as Action
from opx.domain.record import Record as Record
from opx.domain.record import about as about
from opx.domain.requests import Request as Request
from opx.domain.sources import Page as Page
from opx.domain.sources import PullRequest as PullRequest
from opx.domain.sources import RateLimit as RateLimit
from opx.domain.sources import SourceDocument as SourceDocument
from opx.errors import InvalidInputError as InvalidInputError
from opx.errors import SourceRefusedError as SourceRefusedError
from opx.errors import SourceShapeError as SourceShapeError
from opx.errors import SourceUnavailableError as SourceUnavailableError
from opx.errors import UnparsableDocumentError as UnparsableDocumentError
from opx.formats.sandbox.output import Output as Output
from opx.formats.sandbox.output import ReadingJob as ReadingJob
from opx.formats.source import Format as Format
from opx.formats.source import ParsedSource as ParsedSource
from opx.formats.source import Source as Source
from opx.formats.source import text_lines as text_lines
from opx.ingestion.indexing.editions import IndexService as IndexService
from opx.operations.context import Context as Context
from opx.operations.registry import KNOWLEDGE as KNOWLEDGE
from opx.operations.registry import Feature as Feature
from opx.operations.registry import Module as Module
from opx.operations.registry import Tool as Tool
from opx.operations.registry import operation as operation
from opx.ports.search import SearchIndex as SearchIndex

__all__: list[str]
