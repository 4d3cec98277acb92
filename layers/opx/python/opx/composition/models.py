"""Language models and rerankers, as they are put together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from opx.composition.editions import EditionServices
from opx.ports.models import ChatModel, Reranker

if TYPE_CHECKING:
    from opx.models.budgets import CallBudget


class ModelServices(EditionServices):
    """The models that a system may ask."""

    @cached_property
    def model_budget(self) -> CallBudget:
        """What this process may ask of models; one for all of them."""
        from opx.models.budgets import CallBudget

        return CallBudget(self.settings.model_calls_per_minute)

    @cached_property
    def chat(self) -> ChatModel | None:
        """The language model, within the budget; None if none is chosen."""
        if not self.settings.chat_model:
            return None
        from opx.models.budgets import BudgetedChat

        return BudgetedChat(self.chat_model(self.settings.chat_model), self.model_budget)

    @cached_property
    def reranker(self) -> Reranker | None:
        """What is asked to read candidates again, within the budget; None where the library does it itself, or nobody."""
        if self.settings.reranker == "bedrock":
            from opx.models.budgets import BudgetedReranker

            return BudgetedReranker(self.reranking_service(self.settings.rerank_model), self.model_budget)
        if self.settings.reranker == "chat" and self.chat:
            from opx.retrieval.chat_reranker import ChatReranker

            return ChatReranker(self.chat)
        return None
