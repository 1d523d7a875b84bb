"""What Gemma 3's file decides per layer."""

from edgeinfer import plan
from edgeinfer.formats import gguf
from tests import tiny


def trace(path, changes, **shape):
    def edit(keys, tensors):
        for key, value in changes.items():
            keys[f"gemma3.{key}"] = value

    with gguf.open(tiny.write(path / "m.gguf", "gemma3", edit=edit, **shape)) as file:
        return plan.trace(file)


def windows(traced):
    return [op.attrs["window"] for op in traced.ops if op.kind == "attend"]


def test_every_nth_layer_is_global(tmp_path):
    pattern = "attention.sliding_window_pattern"
    assert windows(trace(tmp_path, {pattern: 6}, layers=7)) == [8, 8, 8, 8, 8, 0, 8]
    assert windows(trace(tmp_path, {pattern: 2}, layers=4)) == [8, 0, 8, 0]
    assert windows(trace(tmp_path, {pattern: 1}, layers=2)) == [0, 0]
    assert windows(trace(tmp_path, {pattern: 0}, layers=2)) == [8, 8]


def test_without_a_window_all_layers_are_global(tmp_path):
    traced = trace(tmp_path, {"attention.sliding_window": 0, "rope.freq_base": 50_000.0})
    assert windows(traced) == [0, 0, 0]
    assert len({op.attrs["rope"] for op in traced.ops if op.kind == "rope"}) == 1


def test_only_the_27b_scales_scores_by_dim_over_heads(tmp_path):
    scales = [
        {op.attrs["scale"] for op in trace(tmp_path, {}, layers=layers, dim=32, key_dim=12).ops if op.kind == "attend"}
        for layers in (3, 62)
    ]
    assert scales == [{12**-0.5}, {8**-0.5}]


def test_logits_are_capped_only_where_the_file_says_so(tmp_path):
    assert trace(tmp_path, {}).ops[-1].kind == "linear"
    last = trace(tmp_path, {"final_logit_softcapping": 30.0}).ops[-1]
    assert (last.kind, last.attrs["cap"]) == ("softcap", 30.0)
