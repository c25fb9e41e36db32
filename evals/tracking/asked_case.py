"""The golden query that a trace, or a row of MLflow's evaluation data, is about."""

from collections.abc import Mapping, Sequence
from typing import Any

from evals.errors import TrackingError
from evals.golden.case import Case
from evals.golden.mlflow_records import case_of
from retrievers.text.quoting import quoted


class Asked:
    """Golden queries to look up; without any, cases are in the expectations."""

    def __init__(self, cases: Sequence[Case] | None) -> None:
        self._known = cases is not None
        self._by_id = {case.id: case for case in cases or ()}
        self._by_query: dict[str, list[Case]] = {}
        for case in cases or ():
            self._by_query.setdefault(case.query.strip(), []).append(case)

    def case(self, case_id: str | None, questions: Sequence[str], expectations: Mapping[str, Any]) -> Case:
        """Return the case.

        Args:
            case_id: Its id, where the trace names one.
            questions: Texts that were asked, the user's first.
            expectations: Those of the row.

        Raises:
            TrackingError: There is none, or several have that query.
        """
        if not self._known:
            return case_of(questions[0] if questions else "", expectations)
        if case_id in self._by_id:
            return self._by_id[case_id]
        cases = next((self._by_query[text] for text in questions if text in self._by_query), [])
        if len(cases) == 1:
            return cases[0]
        asked = quoted(questions[0]) if questions else "nothing"
        if not cases:
            raise TrackingError(f"no golden query is {asked}, which this trace was asked; add it to the golden data")
        names = ", ".join(case.id for case in cases[:3])
        raise TrackingError(f"{asked} is the query of several cases ({names}); expected one")
