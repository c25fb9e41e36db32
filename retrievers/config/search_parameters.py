"""The parameters of a search: how Qdrant uses its index and its quantised vectors."""

from typing import Any

from pydantic import Field

from retrievers.config.settings import Settings


class QuantizationSearchConfig(Settings):
    """Use of quantised vectors in a search; the collection's own settings fill those left out."""

    ignore: bool | None = Field(None, description="true: compare the original vectors")
    rescore: bool | None = Field(None, description="score what was found by the original vectors")
    oversampling: float | None = Field(
        None, ge=1, description="how many times as many are found by quantised vectors, and then rescored"
    )


class SearchConfig(Settings):
    """Parameters of the search for dense vectors, as Qdrant's `SearchParams` has them.

    What is left out is as the collection has it. A keyword search is exact; of these only `indexed_only` concerns it.

    Attributes:
        exact: Compare the query with every vector, whatever index there is; nothing but `indexed_only` matters then.
        hnsw_ef: Number of nearest vectors that a search in an HNSW index keeps on its way. Qdrant keeps no fewer than
            it is to return, which is one more than the candidate depth.
        indexed_only: Leave out the vectors of large segments that are not indexed yet.
    """

    exact: bool | None = Field(None, description="true: compare the query with every vector")
    hnsw_ef: int | None = Field(None, ge=1, le=100_000, description="beam of a search in an HNSW index")
    quantization: QuantizationSearchConfig = Field(
        default_factory=lambda: QuantizationSearchConfig.model_validate({}), description="use of quantised vectors"
    )
    indexed_only: bool | None = Field(None, description="true: leave out what is not indexed yet")

    @property
    def named(self) -> dict[str, Any]:
        """The parameters that are set, as nested plain values."""
        if not self.model_fields_set:
            return {}
        return {name: value for name, value in self.model_dump(exclude_none=True).items() if value != {}}
