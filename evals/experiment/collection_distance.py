"""The distance of the collection that an experiment searches, where the experiment does not name it."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from evals.collect.saved.writable import MANIFEST
from evals.experiment.embedded_index import owns_collection
from evals.experiment.loading import Inputs
from evals.grid.axes import plan
from retrievers.config import RetrieverConfig
from retrievers.errors import ConfigError
from retrievers.net.patience import patient
from retrievers.store import open_client, read_info, with_distance


def with_its_distance(inputs: Inputs, env: Mapping[str, str], saved: Path | None) -> Inputs:
    """Return an experiment whose settings, and those of its sweep, have the distance of the collection.

    Thresholds, their direction and the fusions that can be follow from it, and so it is read before all else.

    Args:
        inputs: The experiment.
        env: The environment that holds API keys.
        saved: Folder of a saved retrieval to start from, in place of the collection.

    Raises:
        RetrievalError: The store cannot be asked, or a setting does not go with the distance.
    """
    config, settings = inputs.config, inputs.config.retriever
    if settings.python is not None or settings.distance is not None or owns_collection(config):
        return inputs
    completed = _of_saved(saved, settings) if saved else _of_collection(settings, env)
    if completed == settings:
        return inputs
    whole = config.model_copy(update={"retriever": completed})
    return replace(inputs, config=whole, sweep=plan(completed, config.sweep) if inputs.sweep else None)


def _of_collection(settings: RetrieverConfig, env: Mapping[str, str]) -> RetrieverConfig:
    with patient(settings.store.wait_s):
        client = open_client(settings.store, env)
        try:
            return with_distance(settings, read_info(client, settings))
        finally:
            client.close()


def _of_saved(folder: Path, settings: RetrieverConfig) -> RetrieverConfig:
    """Return the settings with the saved distance; a folder that cannot be read is refused where it is used."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        distance = manifest["variants"][0]["settings"].get("distance")
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError):
        return settings
    if distance is None:
        return settings
    try:
        return RetrieverConfig.model_validate({**settings.model_dump(exclude_unset=True), "distance": distance})
    except ValueError as error:
        raise ConfigError(f"--from-retrieval {folder}: its distance is {distance}: {error}") from None
