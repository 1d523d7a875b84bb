"""Jais 2: Nemotron's layers.  Source: https://huggingface.co/inceptionai/Jais-2-8B-Chat."""

from edgeinfer.models.nemotron import forward as forward
