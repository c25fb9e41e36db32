"""The settings of retrieval: frozen, checked in full before anything runs."""

from retrievers.config.indexing import IndexSettings
from retrievers.config.models import (
    EmbeddingConfig,
)
from retrievers.config.retriever import (
    FOREIGN_SETTINGS,
    MAX_QUERY_CHARACTERS,
    MAX_QUERY_WORDS,
    Fusion,
    MetadataConfig,
    Mode,
    RerankerName,
    RetrieverConfig,
    StoreConfig,
    ThresholdOn,
    ThresholdSignal,
)
from retrievers.config.settings import (
    TABLE,
    Settings,
    VariableName,
    address,
    dump,
    faults_of,
    host,
    page_base,
    section,
)

__all__ = [
    "FOREIGN_SETTINGS",
    "MAX_QUERY_CHARACTERS",
    "MAX_QUERY_WORDS",
    "TABLE",
    "EmbeddingConfig",
    "Fusion",
    "IndexSettings",
    "MetadataConfig",
    "Mode",
    "RerankerName",
    "RetrieverConfig",
    "Settings",
    "StoreConfig",
    "ThresholdOn",
    "ThresholdSignal",
    "VariableName",
    "address",
    "dump",
    "faults_of",
    "host",
    "page_base",
    "section",
]
