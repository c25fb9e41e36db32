"""The providers of embedding models and of cross-encoders, each declared once."""

from typing import Annotated

from retrievers.config.provider import Provider
from retrievers.config.registry import late, one_of

# The arguments of each class are in `retrievers.embedding.langchain_models`.
_langchain = late("retrievers.embedding.langchain_models:make")

EMBEDDING_PROVIDERS: dict[str, Provider] = {
    "wordllama": Provider(
        make=late("retrievers.embedding.static:make"),
        default_model="l2_supercat_256",
        hosted=False,
        dimensions={256: "wordllama"},
        packages=("wordllama",),
        takes_options=False,
    ),
    "cohere": Provider(
        make=late("retrievers.embedding.cohere:make"),
        default_model="embed-english-v3.0",
        title="Cohere",
        key_env="COHERE_API_KEY",
        address="https://api.cohere.com",
        hosted=True,
        request_texts=96,  # what Cohere takes in one request
        dimensions={1024: "cohere (embed-english-v3.0)"},
        packages=("langchain-cohere", "cohere"),
        takes_options=False,
    ),
    "openai": Provider(
        make=_langchain,
        default_model="text-embedding-3-small",
        title="OpenAI",
        key_env="OPENAI_API_KEY",
        key_for_own_server=False,
        address="https://api.openai.com/v1",
        hosted=True,
        dimensions={1536: "openai (text-embedding-3-small)", 3072: "openai (text-embedding-3-large)"},
        packages=("langchain-openai", "openai"),
        alike=True,
        takes_dimensions=True,
        max_tokens=8191,
    ),
    "azure_openai": Provider(
        make=_langchain,
        title="Azure OpenAI",
        key_env="AZURE_OPENAI_API_KEY",
        address="https://NAME.openai.azure.com",
        hosted=True,
        alike=True,
        takes_dimensions=True,
        max_tokens=8191,
    ),
    "azure_ai": Provider(
        make=_langchain,
        title="Azure AI Foundry",
        key_env="AZURE_AI_API_KEY",
        address="https://NAME.services.ai.azure.com/openai/v1",
        hosted=True,
        alike=True,
        takes_dimensions=True,
        max_tokens=8191,
        extra="azure-ai",
        module="langchain_azure_ai",
    ),
    "bedrock": Provider(
        make=_langchain,
        title="Amazon Bedrock",
        address="https://bedrock-runtime.eu-central-1.amazonaws.com",
        hosted=True,
        takes_dimensions=True,
        extra="bedrock",
        module="langchain_aws",
    ),
    "google_genai": Provider(
        make=_langchain,
        title="Google Gemini",
        key_env="GOOGLE_API_KEY",
        address="https://generativelanguage.googleapis.com",
        hosted=True,
        takes_dimensions=True,
        extra="google-genai",
        module="langchain_google_genai",
    ),
    "google_vertexai": Provider(
        make=_langchain,
        title="Google Vertex AI",
        address="https://europe-west1-aiplatform.googleapis.com",
        hosted=True,
        takes_dimensions=True,
        extra="google-vertexai",
        module="langchain_google_vertexai",
    ),
    "mistralai": Provider(
        make=_langchain,
        default_model="mistral-embed",
        title="Mistral",
        key_env="MISTRAL_API_KEY",
        address="https://api.mistral.ai/v1/",
        hosted=True,
        request_texts=32,
        alike=True,
        max_tokens=8000,
        extra="mistralai",
        module="langchain_mistralai",
    ),
    "ollama": Provider(
        make=_langchain,
        title="Ollama",
        address="http://localhost:11434",
        hosted=True,
        alike=True,
        takes_dimensions=True,
        extra="ollama",
        module="langchain_ollama",
    ),
    "huggingface": Provider(
        make=late("retrievers.embedding.huggingface:make"),
        default_model="sentence-transformers/all-MiniLM-L6-v2",
        hosted=False,
        dimensions={384: "huggingface (all-MiniLM-L6-v2)"},
        packages=("sentence-transformers",),
        takes_dimensions=True,
        extra="huggingface",
        module="langchain_huggingface",
    ),
    "fastembed": Provider(
        make=late("retrievers.embedding.fastembed:make"),
        default_model="BAAI/bge-small-en-v1.5",
        hosted=False,
        packages=("fastembed",),
        extra="fastembed",
        module="fastembed",
    ),
    "python": Provider(
        make=late("retrievers.embedding.models:from_python"), model_is_factory=True, takes_options=False
    ),
}

CROSS_ENCODER_PROVIDERS: dict[str, Provider] = {
    "cohere": Provider(
        make=late("retrievers.search.rerank:of_cohere"),
        default_model="rerank-v3.5",
        title="Cohere Rerank",
        key_env="COHERE_API_KEY",
        address="https://api.cohere.com",
        hosted=True,
    ),
    "sentence-transformers": Provider(
        make=late("retrievers.search.rerank:of_sentence_transformers"),
        default_model="cross-encoder/ms-marco-MiniLM-L6-v2",
        hosted=False,
    ),
    "python": Provider(make=late("retrievers.search.rerank:from_python"), model_is_factory=True),
}


def _to_install(name: str) -> str:
    """Return what a provider near to a mistyped one needs, or the way to a model of none of them."""
    if not name:
        return " (python: any other LangChain Embeddings, by embedding.model python:MODULE:FACTORY)"
    installation = EMBEDDING_PROVIDERS[name].installation
    return f" ({installation})" if installation else ""


EmbeddingProviderName = Annotated[str, one_of(EMBEDDING_PROVIDERS, _to_install)]
CrossEncoderProviderName = Annotated[str, one_of(CROSS_ENCODER_PROVIDERS)]
