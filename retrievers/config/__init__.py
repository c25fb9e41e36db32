"""The settings of retrieval: frozen, checked in full before anything runs."""

from retrievers.config.indexing import IndexSettings
from retrievers.config.models import CrossEncoderConfig, EmbeddingConfig, ModelConfig
from retrievers.config.provider import Provider
from retrievers.config.providers import CROSS_ENCODER_PROVIDERS, EMBEDDING_PROVIDERS
from retrievers.config.retriever import (
    FOREIGN_SETTINGS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    MAX_TOP_K,
    REQUIRED_METADATA,
    RERANKERS,
    Fusion,
    KeywordConfig,
    MetadataConfig,
    Mode,
    Reranker,
    RerankerName,
    RetrieverConfig,
    StoreConfig,
    Threshold,
    ThresholdOn,
)
from retrievers.config.settings import TABLE, Settings, UnshownError, VariableName, address, dump, host, page_base

__all__ = [
    "CROSS_ENCODER_PROVIDERS",
    "EMBEDDING_PROVIDERS",
    "FOREIGN_SETTINGS",
    "MAX_QUERY_CHARACTERS",
    "MAX_QUERY_WORDS",
    "MAX_TOP_K",
    "REQUIRED_METADATA",
    "RERANKERS",
    "TABLE",
    "CrossEncoderConfig",
    "EmbeddingConfig",
    "Fusion",
    "IndexSettings",
    "KeywordConfig",
    "MetadataConfig",
    "Mode",
    "ModelConfig",
    "Provider",
    "Reranker",
    "RerankerName",
    "RetrieverConfig",
    "Settings",
    "StoreConfig",
    "Threshold",
    "ThresholdOn",
    "UnshownError",
    "VariableName",
    "address",
    "dump",
    "host",
    "page_base",
]
