"""Mistral Large 3 and Small 4: DeepSeek V2's layers, with queries that grow with their position.

Source: https://docs.mistral.ai/getting-started/models.
"""

from edgeinfer.models.deepseek2 import forward as forward
