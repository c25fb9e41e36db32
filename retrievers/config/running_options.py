"""Options of embedding classes that say how a model runs, not which vector a text gets."""

from collections.abc import Mapping
from typing import Any

# Names as LangChain's classes, sentence-transformers and FastEmbed give them, at any depth.
HOW_IT_RUNS = frozenset(
    (
        *("batch_size", "chunk_size", "parallel", "threads", "num_thread", "multi_process", "device", "device_ids"),
        *("num_gpu", "main_gpu", "low_vram", "cuda", "providers", "lazy_load", "show_progress", "show_progress_bar"),
        *("cache_dir", "cache_folder", "local_files_only", "trust_remote_code", "keep_alive"),
        *("max_retries", "retry_min_seconds", "retry_max_seconds", "request_timeout", "timeout", "transport"),
        *("max_concurrent_requests", "wait_time", "region_name", "credentials_profile_name", "endpoint_url"),
    )
)


def of_the_model(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that may decide which vector a text gets: all but those known to say how the model runs."""
    settings = {
        name: of_the_model(value) if isinstance(value, Mapping) else value
        for name, value in options.items()
        if name not in HOW_IT_RUNS
    }
    return {name: value for name, value in settings.items() if value != {}}
