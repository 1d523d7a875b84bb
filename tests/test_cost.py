"""What a token costs, against sums by hand over the tensors of a file."""

import dataclasses

from edgeinfer import cost, memory
from edgeinfer.formats import gguf
from edgeinfer.plan import trace
from tests import tiny
from tests.models.decoders import CASES


def test_bytes_and_products_of_a_plain_model(tmp_path):
    path = tiny.write(tmp_path / "m.gguf", types={"token_embd": "F16", "": "Q4_0"})
    with gguf.open(path) as file:
        plan = trace(file)
        table = file.tensors["token_embd.weight"]
        others = [tensor for name, tensor in file.tensors.items() if name != "token_embd.weight"]
        output = file.tensors["output.weight"] if "output.weight" in file.tensors else table
        own = 0 if "output.weight" in file.tensors else table.nbytes
        row = table.nbytes // table.shape[0]
        assert cost.weight_bytes(plan) == row + own + sum(tensor.nbytes for tensor in others)
        layers = sum(t.shape[0] * t.shape[1] for t in others if len(t.shape) == 2 and t is not output)
        assert cost.products(plan, 1) == layers + output.shape[0] * output.shape[1]
        last = [file.tensors[f"blk.1.{name}.weight"] for name in ("attn_output", "ffn_gate", "ffn_up", "ffn_down")]
        once = sum(t.shape[0] * t.shape[1] for t in (*last, output))
        assert cost.products(plan, 4) == layers + output.shape[0] * output.shape[1] - once * 3 / 4
        assert cost.kv_bytes(plan, "f16", 33.5) == memory.kv_bytes(plan, "f16", 33, 1)


def test_of_a_table_of_experts_a_token_reads_a_row(tmp_path):
    with gguf.open(CASES["deepseek4"].write(tmp_path / "m.gguf")) as file:
        plan = trace(file)
        table = dataclasses.replace(plan, ops=[op for op in plan.ops if op.kind == "assign"])
        row = file.tensors["blk.0.ffn_gate_tid2eid.weight"].shape[1]
        assert len(table.ops) == 2 and cost.weight_bytes(table) == 2 * 4 * row
