"""Code of a registered retriever, which MLflow copies into the model and runs to load it."""

from typing import Any

from langchain_core.documents import Document
from mlflow.models import ModelConfig, set_model

from retrievers import QdrantRetriever, RetrieverConfig


class RegisteredRetriever(QdrantRetriever):
    """A `QdrantRetriever` with the name by which `predict` of MLflow 3 calls retrievers."""

    def get_relevant_documents(self, query: str, callbacks: Any = None) -> list[Document]:
        """Return the documents of a query."""
        return self.invoke(query, {"callbacks": callbacks})


set_model(RegisteredRetriever.from_config(RetrieverConfig.model_validate(ModelConfig().to_dict())))
