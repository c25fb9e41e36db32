"""From Docusaurus pages to a Qdrant collection."""
