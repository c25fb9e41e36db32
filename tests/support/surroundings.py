"""An environment full of keys and addresses, none of which the default run may use or tell."""

ELSEWHERE = "203.0.113.7"  # of a network that is reserved for examples
SECRET = "s3cr3t-marked"
ENVIRONMENT = {
    **{
        name: f"{SECRET}-{name.lower()}"
        for name in (
            "COHERE_API_KEY", "CO_API_KEY", "QDRANT_API_KEY", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "DATABRICKS_TOKEN",
            "AWS_SECRET_ACCESS_KEY",
            "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN",
        )
    },
    "QDRANT_URL": f"http://{ELSEWHERE}:6333",
    "CO_API_URL": f"http://{ELSEWHERE}/cohere",
    "LANGSMITH_TRACING": "true",
    "LANGSMITH_TRACING_V2": "true",
    "LANGCHAIN_TRACING_V2": "true",
    "LANGSMITH_ENDPOINT": f"http://{ELSEWHERE}/langsmith",
    "MLFLOW_TRACKING_URI": f"http://me:{SECRET}-uri@{ELSEWHERE}:5000",
    "MLFLOW_REGISTRY_URI": f"http://{ELSEWHERE}:5000",
    "MLFLOW_EXPERIMENT_NAME": "another",
    "MLFLOW_EXPERIMENT_ID": "77",
    "MLFLOW_RUN_ID": "0123456789abcdef0123456789abcdef",
    "MLFLOW_DISABLE_TELEMETRY": "false",
    "RAGAS_DO_NOT_TRACK": "false",
    "DO_NOT_TRACK": "0",
    "HF_HUB_OFFLINE": "0",
    "HF_DATASETS_OFFLINE": "0",
    "HF_ENDPOINT": f"http://{ELSEWHERE}/hf",
    "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{ELSEWHERE}:4318",
    "RAG_DEFAULT_TOP_K": "50",
    "RAG_SIMILARITY_THRESHOLD": "0.9",
    "RAG_DEFAULT_COLLECTION": "theirs",
    "RAG_SEARCH_MODE": "hybrid",
}  # fmt: skip
