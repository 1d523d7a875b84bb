"""One file for each family of tensor types: how the bytes of a block become codes, scales and minimums."""
