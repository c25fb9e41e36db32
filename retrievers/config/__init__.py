"""The settings of retrieval: frozen, checked in full before anything runs."""

from retrievers.config.indexing import IndexSettings
from retrievers.config.models import (
    CROSS_ENCODER_PROVIDERS,
    EMBEDDING_PROVIDERS,
    CrossEncoderConfig,
    EmbeddingConfig,
    ModelConfig,
    Provider,
)
from retrievers.config.rerankers import RERANKERS, Fusion, Reranker, RerankerName
from retrievers.config.retriever import (
    FOREIGN_SETTINGS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    MAX_TOP_K,
    Mode,
    RetrieverConfig,
    Threshold,
    ThresholdOn,
)
from retrievers.config.sections import REQUIRED_METADATA, CacheConfig, KeywordConfig, MetadataConfig, StoreConfig
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
    "CacheConfig",
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
