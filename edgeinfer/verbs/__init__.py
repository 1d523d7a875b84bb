"""The verbs architectures are written in, by family; `blocks.Builder` has all of them."""
