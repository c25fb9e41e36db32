"""The tools for golden data: check them, begin or import them, let people label them, or a model write them."""
