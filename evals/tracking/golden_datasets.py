"""Evaluation datasets of MLflow, read and written as records (see `evals.golden.mlflow_records`)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from evals.config.experiment import TrackingConfig
from evals.errors import TrackingError
from evals.tracking.client import connection, current
from evals.tracking.store import FOLDER, check_database, creation_lock, local_uri
from retrievers.errors import nearest
from retrievers.text.quoting import quoted
from retrievers.text.secrets import redacted

if TYPE_CHECKING:
    from mlflow import MlflowClient

# Addresses of databases and servers; others are folders of files, which hold no datasets.
STORES = ("sqlite", "postgresql", "mysql", "mssql", "http", "https")
DEFAULT_EXPERIMENT = TrackingConfig.model_fields["experiment"].default


def read_dataset(name: str, uri: str | None = None) -> list[dict[str, Any]]:
    """Return the records of a dataset: inputs, expectations and tags.

    Args:
        name: Name of the dataset.
        uri: Address of MLflow; the database under ./mlruns when left out.

    Raises:
        TrackingError: There is no such dataset, or MLflow keeps none.
        ConfigError: The database is damaged.
    """
    with opened(uri) as client:
        stored = _named(client, name)
        if not stored:
            names = [dataset.name for dataset in client.search_datasets(max_results=1_000)]
            have = nearest(name, names) or ("" if names else "; it has none")
            raise TrackingError(f"MLflow has no evaluation dataset {quoted(name)}{have}")
        dataset = client.get_dataset(stored[0].dataset_id)
        return [
            {"inputs": record.inputs, "expectations": record.expectations or {}, "tags": record.tags or {}}
            for record in dataset.records
        ]


def write_dataset(
    name: str,
    records: Sequence[Mapping[str, Any]],
    tags: Mapping[str, str],
    uri: str | None = None,
    *,
    replaced: bool = False,
) -> None:
    """Write records as a dataset of the experiment in which runs are kept by default.

    Args:
        name: Name of the dataset.
        records: Records.
        tags: Tags of the dataset.
        uri: Address of MLflow; the database under ./mlruns when left out.
        replaced: Replace a dataset of that name.

    Raises:
        TrackingError: There is one of that name, or MLflow keeps none.
        ConfigError: The local folder cannot be written, or the database is damaged.
    """
    with opened(uri) as client:
        existing = _named(client, name)
        if existing and not replaced:
            raise TrackingError(
                f"MLflow has an evaluation dataset {quoted(name)} already; give another --name, or replace it with "
                "--force"
            )
        experiment = client.get_experiment_by_name(DEFAULT_EXPERIMENT)
        dataset = client.create_dataset(name, experiment.experiment_id if experiment else "0", dict(tags))
        try:
            dataset.merge_records([dict(record) for record in records])
        except BaseException:
            client.delete_dataset(dataset.dataset_id)
            raise
        for old in existing:
            client.delete_dataset(old.dataset_id)


@contextmanager
def opened(uri: str | None) -> Iterator["MlflowClient"]:
    """Yield a client of a SQL database; within the block its address is MLflow's own, too, which datasets read.

    Raises:
        TrackingError: It is no database and no server.
        ConfigError: The database is damaged.
    """
    address = uri or local_uri(FOLDER)
    if urlsplit(address).scheme.partition("+")[0] not in STORES:
        raise TrackingError(
            "MLflow keeps evaluation datasets in a SQL database alone, not in the files of "
            f"{quoted(redacted(address))}; expected such as sqlite:////home/me/mlflow.db, or a server's address"
        )
    check_database(uri)
    with connection(address) as client, current(address):
        with creation_lock(TrackingConfig.model_validate({"uri": uri})):
            client.search_experiments(max_results=1)
        yield client


def _named(client: "MlflowClient", name: str) -> list[Any]:
    """Return the datasets of a name, the newest first."""
    quote = "'" if '"' in name else '"'
    return list(client.search_datasets(filter_string=f"name = {quote}{name}{quote}", order_by=["created_time DESC"]))
