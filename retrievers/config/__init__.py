"""The settings of retrieval: frozen, checked in full before anything runs."""

from retrievers.config.base import TABLE, Settings, UnshownError, VariableName, address, dump, host, page_base
from retrievers.config.caching import CacheConfig
from retrievers.config.keyword import KeywordConfig
from retrievers.config.metadata import REQUIRED_METADATA, MetadataConfig
from retrievers.config.models import CrossEncoderConfig, EmbeddingConfig, ModelConfig
from retrievers.config.retriever import (
    FOREIGN_SETTINGS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    MAX_TOP_K,
    Fusion,
    Mode,
    Rerank,
    RetrieverConfig,
    Threshold,
)
from retrievers.config.store import StoreConfig

__all__ = [
    "FOREIGN_SETTINGS",
    "MAX_QUERY_CHARACTERS",
    "MAX_QUERY_WORDS",
    "MAX_TOP_K",
    "REQUIRED_METADATA",
    "TABLE",
    "CacheConfig",
    "CrossEncoderConfig",
    "EmbeddingConfig",
    "Fusion",
    "KeywordConfig",
    "MetadataConfig",
    "Mode",
    "ModelConfig",
    "Rerank",
    "RetrieverConfig",
    "Settings",
    "StoreConfig",
    "Threshold",
    "UnshownError",
    "VariableName",
    "address",
    "dump",
    "host",
    "page_base",
]
