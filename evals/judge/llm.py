"""ragas' side of the judge: the model that its metrics call, with a record of questions and answers."""

from typing import Any, TypeVar

from pydantic import BaseModel
from ragas.llms.base import InstructorBaseRagasLLM

from evals.judge.asking import Asker, UnansweredError

Schema = TypeVar("Schema", bound=BaseModel)


class RagasJudge(InstructorBaseRagasLLM):  # type: ignore[misc]  # ragas has no types
    """The language model of one scoring: hands prompts on and remembers the answers, or that there was none.

    ragas' context relevance swallows its model's errors and averages the rest; `unanswered` keeps them.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self.answers: list[Any] = []
        self.unanswered: UnansweredError | None = None

    async def agenerate(self, prompt: str, response_model: type[Schema]) -> Schema:
        """Return the verdict on a prompt.

        Raises:
            UnansweredError: There is none.
        """
        try:
            answer = await self._asker.ask(prompt, response_model)
        except UnansweredError as error:
            self.unanswered = error
            raise
        self.answers.append(answer)
        return answer

    def generate(self, prompt: str, response_model: type[Schema]) -> Schema:
        """Refuse: ragas' metrics are asynchronous.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("the judge is asked with agenerate")
