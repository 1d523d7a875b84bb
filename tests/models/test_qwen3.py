"""Qwen3 against llama.cpp."""

import pytest

from tests.models import oracle


@pytest.mark.parametrize("name", "qwen3".split())
def test_logits_and_greedy_text_are_llama_cpps(shared, name):
    oracle.check(shared, name)
