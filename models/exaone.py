"""EXAONE 3: Qwen2's layers without biases, with Llama 3's frequency factors.

Source: https://arxiv.org/abs/2408.03541.
"""

from edgeinfer.models.qwen2 import forward as forward
