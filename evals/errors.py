"""The errors of evaluation. Like the errors of `retrievers`, their texts can be shown to users.

RetrievalError
└── EvaluationError
    ├── DatasetError      golden data are missing or malformed, or evidence does not resolve; every fault is listed
    ├── ReportError       a report is missing, broken or of another version, or must not be compared with another one
    ├── ExperimentError   the experiment asks for something that does not exist or cannot be done
    ├── JudgeError        the judge cannot be built, refuses every call, or its store cannot be used
    └── TrackingError     MLflow cannot be reached or refuses
"""

from retrievers.errors import RetrievalError


class EvaluationError(RetrievalError):
    """Base of all errors that `evals` raises on purpose."""


class DatasetError(EvaluationError):
    """Golden data are missing or malformed, or their evidence does not resolve."""


class ReportError(EvaluationError):
    """A report is missing, broken or of another schema version, or must not be compared with another one."""


class ExperimentError(EvaluationError):
    """The experiment asks for something that does not exist or cannot be done."""


class JudgeError(EvaluationError):
    """The judge cannot be built, refuses every call, or its verdict store cannot be used."""


class TrackingError(EvaluationError):
    """MLflow cannot be reached, or refuses a request."""
