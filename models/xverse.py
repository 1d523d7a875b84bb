"""XVERSE: Llama's layers.  Source: https://huggingface.co/xverse/XVERSE-7B."""

from edgeinfer.models.llama import forward as forward
