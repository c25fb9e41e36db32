"""The verdicts of a store, checked against their schema: damaged or manually edited rows are no verdicts."""

import logging

from pydantic import BaseModel, ValidationError

from evals.judge.ask.cache import VerdictStore
from evals.judge.ask.parse import outside

log = logging.getLogger(__name__)


class CheckedVerdicts:
    """Reads a store for a run; says once that it holds rows which are no verdicts."""

    def __init__(self, store: VerdictStore) -> None:
        self._store = store
        self._said = False

    def get(self, key: bytes, schema: type[BaseModel]) -> str | None:
        """Return the verdict of a key as JSON; None when there is none, or the stored text is not a verdict.

        Raises:
            JudgeError: The store cannot be read.
        """
        stored = self._store.get(key)
        if stored is None:
            return None
        try:
            reason = outside(schema.model_validate_json(stored.answer))
        except (ValidationError, TypeError) as error:
            reason = f"{type(error).__name__}, got {stored.answer[:60]!r}"
        if not reason:
            return stored.answer
        if not self._said:
            text = "the verdict store %s holds an answer that is no verdict (%s); it is bought again, as any other such"
            log.warning(text, self._store.file, reason)
        self._said = True
        return None
