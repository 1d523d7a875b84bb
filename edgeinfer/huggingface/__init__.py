"""Hugging Face's model folders, read as the GGUF files they would become."""
