"""Composes the language models and rerankers that a system may ask."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from opx.ports.models import ChatModel, Reranker
from opx.settings import Settings

if TYPE_CHECKING:
    from opx.retrieval.model_budgets import CallBudget


class Models:
    """`new_chat` and `new_reranker` give the model of a name, by the service that has it; `given` is the language model in
    place of the one of the settings."""

    def __init__(
        self,
        settings: Settings,
        new_chat: Callable[[str], ChatModel],
        new_reranker: Callable[[str], Reranker],
        given: ChatModel | None = None,
    ) -> None:
        self._settings = settings
        self.new_chat = new_chat
        self._new_reranker = new_reranker
        if given is not None:
            self.chat = given

    @cached_property
    def budget(self) -> CallBudget:
        """The calls that this process may make; one budget for all models."""
        from opx.retrieval.model_budgets import CallBudget

        return CallBudget(self._settings.model_calls_per_minute)

    @cached_property
    def chat(self) -> ChatModel | None:
        """The language model, within the budget; None if none is chosen."""
        if not self._settings.chat_model:
            return None
        from opx.retrieval.model_budgets import BudgetedChat

        return BudgetedChat(self.new_chat(self._settings.chat_model), self.budget)

    @cached_property
    def reranker(self) -> Reranker | None:
        """The model that ranks candidates again, within the budget; None where the library does it itself, or nobody."""
        if self._settings.reranker == "bedrock":
            from opx.retrieval.model_budgets import BudgetedReranker

            return BudgetedReranker(self._new_reranker(self._settings.rerank_model), self.budget)
        if self._settings.reranker == "chat" and self.chat:
            from opx.retrieval.chat_reranker import ChatReranker

            return ChatReranker(self.chat)
        return None
