"""Qwen2 against llama.cpp."""

import pytest

from tests.models import oracle


@pytest.mark.parametrize("name", "qwen2 qwen2-yarn qwen2-256.Q4_K_M".split())
def test_logits_and_greedy_text_are_llama_cpps(shared, name):
    oracle.check(shared, name)
