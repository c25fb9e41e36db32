"""The settings of retrieval: frozen, checked in full before anything runs."""

from retrievers.config.indexing import IndexSettings as IndexSettings
from retrievers.config.models import EmbeddingConfig as EmbeddingConfig
from retrievers.config.retriever import FOREIGN_SETTINGS as FOREIGN_SETTINGS
from retrievers.config.retriever import MAX_QUERY_CHARACTERS as MAX_QUERY_CHARACTERS
from retrievers.config.retriever import Fusion as Fusion
from retrievers.config.retriever import MetadataConfig as MetadataConfig
from retrievers.config.retriever import Mode as Mode
from retrievers.config.retriever import RerankerName as RerankerName
from retrievers.config.retriever import RetrieverConfig as RetrieverConfig
from retrievers.config.retriever import StoreConfig as StoreConfig
from retrievers.config.retriever import ThresholdOn as ThresholdOn
from retrievers.config.retriever import ThresholdSignal as ThresholdSignal
from retrievers.config.retriever import too_long as too_long
from retrievers.config.settings import TABLE as TABLE
from retrievers.config.settings import Settings as Settings
from retrievers.config.settings import VariableName as VariableName
from retrievers.config.settings import address as address
from retrievers.config.settings import dump as dump
from retrievers.config.settings import faults_of as faults_of
from retrievers.config.settings import field as field
from retrievers.config.settings import host as host
from retrievers.config.settings import page_base as page_base
from retrievers.config.settings import section as section
from retrievers.config.settings import table as table
