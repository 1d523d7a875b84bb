"""How each op becomes nodes, a file for each family of ops; `edgeinfer.lower` puts them together."""
