"""The tools that make golden data: they are checked, begun, imported, labelled by people, and written by a model."""
