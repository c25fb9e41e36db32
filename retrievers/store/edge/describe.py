"""The properties of a collection, in qdrant_client's terms."""

from collections.abc import Mapping

import qdrant_edge as edge
from qdrant_client import models

from retrievers.store.edge.views import View

INDEXES: Mapping[edge.PayloadSchemaType, models.PayloadSchemaType] = {
    edge.PayloadSchemaType.Keyword: models.PayloadSchemaType.KEYWORD,
    edge.PayloadSchemaType.Integer: models.PayloadSchemaType.INTEGER,
    edge.PayloadSchemaType.Float: models.PayloadSchemaType.FLOAT,
    edge.PayloadSchemaType.Bool: models.PayloadSchemaType.BOOL,
}


def collection(view: View) -> models.CollectionInfo:
    """Describe the collection's vectors, metadata, indexes and counts."""
    info, spec = view.shard.info(), view.spec
    unnamed = spec.dense.get("") if len(spec.dense) == 1 else None
    return models.CollectionInfo(
        status=models.CollectionStatus.GREEN,
        optimizer_status=models.OptimizersStatusOneOf.OK,
        points_count=view.shard.count(edge.CountRequest(exact=True)),
        indexed_vectors_count=info.indexed_vectors_count if spec.optimized else 0,
        segments_count=info.segments_count,
        payload_schema={
            key: models.PayloadIndexInfo(data_type=INDEXES[index.data_type], points=index.points)
            for key, index in info.payload_schema.items()
        },
        config=models.CollectionConfig(
            params=models.CollectionParams(
                vectors=unnamed or dict(spec.dense), sparse_vectors=dict(spec.sparse) or None
            ),
            hnsw_config=models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000),
            optimizer_config=models.OptimizersConfig(
                deleted_threshold=0.2, vacuum_min_vector_number=1_000, default_segment_number=0, flush_interval_sec=5
            ),
            metadata=dict(spec.metadata) if spec.metadata is not None else None,
        ),
    )
