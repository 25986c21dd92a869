"""The answer to the last question, for questions that come in rows of equal ones."""

from collections.abc import Callable
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class LastAnswer(Generic[Q, A]):
    """Ask `answer` only when a question is not `alike` the one before. Answers are shared: never change them.

    `alike` gets the earlier question first; it may say no to questions that are.
    """

    __slots__ = ("_alike", "_answer", "_last")

    def __init__(self, answer: Callable[[Q], A], alike: Callable[[Q, Q], bool]) -> None:
        self._answer, self._alike = answer, alike
        self._last: tuple[Q, A] | None = None

    def of(self, question: Q) -> A:
        """Return the answer to a question. Raises what `answer` raises."""
        last = self._last
        if last is not None and self._alike(last[0], question):
            return last[1]
        answer = self._answer(question)
        self._last = question, answer
        return answer
