"""Reading a report back, by its schema."""

from collections import Counter

from pydantic import ValidationError

from evals.config.experiment import ExperimentConfig
from evals.errors import ReportError
from evals.metrics import remember
from evals.report.model import SCHEMA_VERSION, Report
from retrievers.config.files import load_json
from retrievers.config.settings import Settings
from retrievers.text.quoting import quoted

MAX_FAULTS_SHOWN = 5
# Largest report: tens of thousands of queries.
MOST_BYTES = 500_000_000


def parse(text: str, origin: str) -> Report:
    """Read a report; its schema version is looked at before anything else.

    Args:
        text: The JSON document.
        origin: Origin, for messages.

    Raises:
        ReportError: It is no JSON, no report, one of another schema version, or breaks the schema.
    """
    try:
        document = load_json(text)
    except ValueError as error:
        raise ReportError(f"{origin}: {error}; expected a report of evals.run") from None
    if not isinstance(document, dict) or "schema_version" not in document:
        is_table = isinstance(document, dict)
        found = f"the fields {', '.join(map(quoted, [*document][:5]))}" if is_table else f"a {type(document).__name__}"
        raise ReportError(f"{origin}: expected a report of evals.run, which has a schema_version; found {found}")
    version = document["schema_version"]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ReportError(
            f"{origin}: expected a report of schema version {SCHEMA_VERSION}, found version {quoted(version)}; "
            "make it again with this version of retrieval-evals, or read it with the version that made it"
        )
    try:
        report = Report.model_validate_json(text)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors(include_url=False)]
        more = [f"… and {len(faults) - MAX_FAULTS_SHOWN} more"] if len(faults) > MAX_FAULTS_SHOWN else []
        said = [*faults[:MAX_FAULTS_SHOWN], *more]
        raise ReportError(f"{origin}: not a report of schema version {SCHEMA_VERSION}:", said) from error
    for name, field in ExperimentConfig.model_fields.items():
        is_table = isinstance(field.annotation, type) and issubclass(field.annotation, Settings)
        if is_table and not isinstance(found := report.config.get(name, {}), dict):
            raise ReportError(f"{origin}: config.{name}: expected a table of settings, found {quoted(found)}")
    for own in report.own_metrics:
        remember(own.declaration)
    if twice := [name for name, count in Counter(row.id for row in report.queries).items() if count > 1]:
        raise ReportError(f"{origin}: expected every query once, found {quoted(twice[0])} more than once")
    return report
