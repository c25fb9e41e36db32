"""From pages (Markdown, HTML, text, PDF) and datasets to a Qdrant collection."""
