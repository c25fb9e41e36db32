from typing import Any

import pytest
from pydantic import ValidationError

from retrievers.config import MetadataConfig


def test_the_metadata_setting_knows_aliases_and_drops_repetitions() -> None:
    config = MetadataConfig.model_validate(
        {
            "map": {"url": "href", "document_id": "doc", "title": "name"},
            "required": ["url", "source_url", "document_section", "vector_id", "text", "chunk_text_preview"],
        }
    )
    assert config.map == {"source_url": "href", "source_document_id": "doc", "title": "name"}
    assert config.required == ("source_url", "section_path", "point_id", "text", "chunk_text_preview")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"map": {"sorce_url": "x"}}, "'sorce_url' is not a field of a chunk; did you mean 'source_url'"),
        ({"map": {"point_id": "x"}}, "'point_id' is not a field"),
        ({"map": {"text": "x"}}, "'text' is not a field"),
        ({"required": ["titel"]}, "'titel' is not a field of a chunk; did you mean 'title'"),
        ({"required": ["problems"]}, "'problems' is not a field"),
    ],
)
def test_a_name_that_is_no_field_is_refused_with_the_nearest(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        MetadataConfig.model_validate(values)
