"""Models that are asked only so often: what costs money or a quota can't be run up by a storm of questions."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from opx.errors import ModelError
from opx.ports.models import Candidate, ChatModel, ChatReply, ChatRequest, Ranking, Reranker

WINDOW_SECONDS = 60.0


class CallBudget:
    """`per_minute` calls in any minute, for one process. Safe to share between threads and between models."""

    def __init__(self, per_minute: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._lock = threading.Lock()
        self._taken: deque[float] = deque()

    def take(self, name: str) -> None:
        """Count one call. Raises `ModelError` if the last minute's are spent: nobody waits for the next one."""
        with self._lock:
            now = self._clock()
            while self._taken and self._taken[0] <= now - WINDOW_SECONDS:
                self._taken.popleft()
            if len(self._taken) < self._per_minute:
                self._taken.append(now)
                return
        raise ModelError(
            f"{name} is not asked: the {self._per_minute} calls to models that this process may make in a minute are "
            "spent (OPX_MODEL_CALLS_PER_MINUTE)"
        )


class BudgetedChat:
    """`ChatModel` within a budget."""

    def __init__(self, chat: ChatModel, budget: CallBudget) -> None:
        self._chat = chat
        self._budget = budget

    @property
    def name(self) -> str:
        return self._chat.name

    def ask(self, request: ChatRequest) -> ChatReply:
        self._budget.take(self.name)
        return self._chat.ask(request)


class BudgetedReranker:
    """`Reranker` within a budget. Nothing to rank costs nothing."""

    def __init__(self, reranker: Reranker, budget: CallBudget) -> None:
        self._reranker = reranker
        self._budget = budget

    @property
    def name(self) -> str:
        return self._reranker.name

    def rank(self, question: str, candidates: Sequence[Candidate], *, seconds: float) -> Ranking:
        if candidates:
            self._budget.take(self.name)
        return self._reranker.rank(question, candidates, seconds=seconds)
