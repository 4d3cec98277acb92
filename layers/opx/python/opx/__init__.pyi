"""Types of what `opx` exports: its module imports each name when it is first used."""

from opx.domain.baselines import BaselineStats as BaselineStats
from opx.domain.evidence import Evidence as Evidence
from opx.domain.learning import RAGPattern as RAGPattern
from opx.domain.queries import Band as Band
from opx.domain.queries import QueryConfig as QueryConfig
from opx.domain.queries import SearchMode as SearchMode
from opx.domain.results import Answer as Answer
from opx.domain.results import EvidenceItem as EvidenceItem
from opx.domain.results import EvidencePack as EvidencePack
from opx.domain.results import Results as Results
from opx.domain.results import RetrievalResult as RetrievalResult
from opx.domain.scopes import Identity as Identity
from opx.domain.sources import Document as Document
from opx.domain.sources import KnowledgeSource as KnowledgeSource
from opx.domain.sources import SourceDeclaration as SourceDeclaration
from opx.errors import InvalidInputError as InvalidInputError
from opx.errors import OpxError as OpxError
from opx.facade.aio import AsyncKnowledge as AsyncKnowledge
from opx.facade.knowledge import AttackSource as AttackSource
from opx.facade.knowledge import GitHubIssuesSource as GitHubIssuesSource
from opx.facade.knowledge import Knowledge as Knowledge
from opx.facade.knowledge import MSDocsSource as MSDocsSource
from opx.facade.knowledge import NVDSource as NVDSource
from opx.facade.knowledge import WebSearchSource as WebSearchSource
from opx.settings import Settings as Settings

__version__: str
__all__: list[str]
