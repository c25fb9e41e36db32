"""The distance of a collection's vectors, taken over by the settings of who searches it."""

from typing import get_args

from pydantic import ValidationError

from retrievers.config import RetrieverConfig
from retrievers.errors import CollectionStateError, ConfigError
from retrievers.records import Distance
from retrievers.store.collection import CollectionInfo


def with_distance(settings: RetrieverConfig, info: CollectionInfo) -> RetrieverConfig:
    """Return the settings with the distance that the collection has, checked by it; a cosine changes nothing.

    Raises:
        CollectionStateError: It has a distance of which a lower score is the nearer.
        ConfigError: They name another distance, a threshold that is one on cosine similarity, or a fusion that is of
            no use with this distance.
    """
    if settings.python is not None or info.distance == settings.used_distance:
        return settings
    has = f"collection {info.name!r} has the distance {info.distance}"
    if info.distance not in get_args(Distance):
        raise CollectionStateError(
            f"{has}, and only cosine and dot are searched: copy its vectors into a collection of one of these"
        )
    if settings.distance is not None:
        raise ConfigError(f"{has}, and the settings say {settings.distance}; set distance to it, or leave it out")
    if settings.threshold is not None:
        raise ConfigError(
            f"{has}, where scores have no bounds, and threshold {settings.threshold:g} is one on cosine similarity; "
            f"leave it out (threshold: default), or set distance: {info.distance} beside a threshold of that distance"
        )
    plain = settings.model_copy(update={"distance": info.distance}).model_dump()
    try:
        return RetrieverConfig.model_validate(plain)
    except ValidationError as error:
        messages = [str(fault["msg"]).removeprefix("Value error, ") for fault in error.errors()]
        raise ConfigError(f"{has}: {'; '.join(messages)}") from None
