"""Llama and its variants against llama.cpp."""

import pytest

from tests.models import oracle

CASES = """llama llama-align64 llama-bias llama-fused-qkv llama-gqa3-tied llama-gqa8-hd llama-longrope-long
llama-longrope-short llama-rope-linear llama-rope-scale-oldkey llama-rope-yarn llama-rope-yarn-attnfactor
llama3-ropefreqs llama-256.Q4_K_M llama-256-1layer.Q2_K llama-256-1layer.Q3_K_M llama-256-1layer.Q5_K_M
llama-rows96.F16 llama-rows96.BF16 llama-rows96.Q4_0 llama-rows96.Q4_1 llama-rows96.Q5_0 llama-rows96.Q5_1
llama-rows96.Q8_0""".split()


@pytest.mark.parametrize("name", CASES)
def test_logits_and_greedy_text_are_llama_cpps(shared, name):
    oracle.check(shared, name)
