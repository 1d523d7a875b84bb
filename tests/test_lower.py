"""Lowering: values that are needed at the same time lie apart, and workers wait wherever one could meet another."""

import pytest

from edgeinfer import plan
from edgeinfer.errors import UnsupportedError
from edgeinfer.formats import gguf
from edgeinfer.kvcache import KVCache, Layer
from edgeinfer.lower import Buffer, Lowering, Node, mark_chains, mark_waits, place
from edgeinfer.simd_kernels import kernels, record
from tests import tiny

MODELS = {
    "llama": ("llama", "F32", {}),
    "llama of one layer": ("llama", "Q4_0", {"layers": 1}),
    "llama with biases": ("llama", "Q4_K", {"bias": True, "tied": True}),
    "llama whose widths make strides alike": ("llama", "Q8_0", {"dim": 96, "ff_dim": 256, "heads": 6}),
    "qwen2": ("qwen2", "Q8_0", {}),
    "qwen3": ("qwen3", {"attn_v": "F16", "ffn_down": "Q6_K", "": "Q4_K"}, {}),
    "gemma3": ("gemma3", "Q5_1", {"layers": 4}),
    "gemma3 with a cap": ("gemma3", "Q4_K", {"edit": lambda k, t: k.update({"gemma3.final_logit_softcapping": 30.0})}),
}


KIT = ["deepseek2-mla", "gpt-oss", "jamba", "qwen3next", "rwkv6", "rwkv7"]
MADE = ("linear.quantised", "linear.fine", "outputs")


@pytest.fixture(scope="module", params=[*MODELS, *KIT])
def lowered(request, tmp_path_factory):
    if request.param in KIT:
        shared = request.getfixturevalue("shared")
        return lower_file(shared / "kit" / "arch" / f"{request.param}.gguf")
    return lower(tmp_path_factory.mktemp("model"), *MODELS[request.param])


def lower(folder, arch="llama", types="F32", options=(), threads=2):
    return lower_file(tiny.write(folder / "m.gguf", arch, types, **dict(options)), threads)


def lower_file(path, threads=2):
    traced = plan.trace(gguf.open(path))
    attends = [op.attrs for op in traced.ops if op.caches]
    layers = [Layer(a["layer"], a["window"], a["kv_heads"], a["key_dim"], a["value_dim"]) for a in attends]
    return Lowering(traced, KVCache(layers, 64, 16, 1, "f16"), threads).run()


def uses(node):
    return [(b.root, False) for b in node.reads.values()] + [(b.root, True) for b in node.writes.values()]


def test_every_value_is_still_there_when_it_is_read(lowered):
    holder = {}
    for node in lowered.nodes:
        for buffer in (b.root for b in node.reads.values()):
            if buffer.slot >= 0:
                assert holder[buffer.slot] is buffer
        for buffer in (b.root for b in node.writes.values()):
            if buffer.slot >= 0:
                assert all(other is buffer or other.slot != buffer.slot for other, _ in uses(node))
                assert lowered.slots[buffer.slot] == buffer.stride
                holder[buffer.slot] = buffer


def test_every_value_has_a_place(lowered):
    for node in lowered.nodes:
        for buffer, _ in uses(node):
            assert buffer.slot >= 0 or buffer.logits or buffer.stride == 0  # else: in the KV cache


def test_slots_are_used_again(lowered):
    written = {id(b.root) for node in lowered.nodes for b in node.writes.values()}
    assert len(lowered.slots) < 20 and len(lowered.slots) < len(written)


def same_memory(one, other):
    return one is other or (one.slot >= 0 and one.slot == other.slot) or (one.logits and other.logits)


def in_tiles(node, buffer):
    """Quantised rows lie in tiles of several rows, as those of no other buffer do."""
    return node.kernel in ("quantise", "quantise.fine") and buffer is node.writes["out"].root


def on_own_rows(first, a, second, b):
    """Whether a worker meets in buffer b only rows of its own in buffer a: shared out alike and laid out alike."""
    alike = a is b or not (in_tiles(first, a) or in_tiles(second, b))
    return first.alone and second.alone and first.rows == second.rows and alike


def conflicts(nodes):
    """Kernels of nodes without a wait between them that touch the same memory, one of them writing."""
    found = []
    for i, first in enumerate(nodes):
        for j in range(i + 1, len(nodes)):
            if nodes[j - 1].wait:
                break
            for a, a_written in uses(first):
                for b, b_written in uses(nodes[j]):
                    if (a_written or b_written) and same_memory(a, b) and not on_own_rows(first, a, nodes[j], b):
                        found.append((first.kernel, nodes[j].kernel))
    return found


def test_workers_wait_wherever_one_could_meet_another(lowered):
    assert conflicts(lowered.nodes) == []


def test_without_any_of_the_waits_there_would_be_a_conflict(lowered):
    """So that no wait is for nothing, and the check finds what is missing."""
    for node in lowered.nodes[:-1]:
        if node.wait:
            node.wait = False
            assert conflicts(lowered.nodes), node.kernel
            node.wait = True


def test_views_of_views_begin_where_both_say():
    base = Buffer(640)
    view = Buffer(640, base=Buffer(640, base=base, offset=64), offset=8)
    assert (base.start, view.start, view.root) == (0, 72, base)


def test_the_step_ends_with_a_wait(lowered):
    assert lowered.nodes[-1].wait


def test_chains_are_of_rows_without_waits_and_leave_none_out(lowered):
    left = 0
    for i, node in enumerate(lowered.nodes):
        if node.chain:
            assert left == 0
            chain = lowered.nodes[i : i + node.chain]
            assert len(chain) == node.chain and all(n.alone and n.rows == node.rows for n in chain)
            assert not any(n.wait for n in chain[:-1])
            left = node.chain
        assert left > 0 or not node.alone
        left = max(0, left - 1)


def test_sums_overwrite_what_nothing_else_reads(tmp_path):
    """Not the residual stream, which the next addition reads too, but what a linear layer has made."""
    nodes, made = lower(tmp_path, "llama", "Q4_0").nodes, {}
    for node in nodes:
        if node.kernel in ("add", "gated.silu"):
            assert [made[id(b)] for b in node.reads.values() if b is node.writes["out"]][0] in MADE
        made |= {id(b): node.kernel for b in node.writes.values()}
    assert [node.kernel for node in nodes].count("add") == 4


def test_every_kernel_named_is_in_the_table(lowered):
    helpers = {helper for node in lowered.nodes for helper in node.helpers.values()}
    places = ("rope", "tables", "ids", "positions")  # what is told of each row
    names = {node.kernel for node in lowered.nodes} | {h for h in helpers if not h.startswith(places)}
    assert names <= set(kernels.table())


def test_q_k_and_gate_up_share_one_quantised_input(tmp_path):
    nodes = lower(tmp_path, "llama", "Q4_0").nodes
    # of the first layer for q|k, output, gate|up and down, of the last one for q|k
    assert [node.kernel for node in nodes].count("quantise") == 4 + 1
    linear = [i for i, node in enumerate(nodes) if node.kernel == "linear.quantised"]
    runs = [i for i in linear if i + 1 in linear]
    assert len(runs) == 3 and not any(nodes[i].wait for i in runs)  # q k of both, gate up of the first


def test_values_and_what_leads_to_the_logits_take_their_input_finely(tmp_path):
    nodes = lower(tmp_path, "llama", "Q4_0").nodes
    fine = [node for node in nodes if node.kernel == "linear.fine"]
    assert [node.rows for node in fine] == ["tokens"] * 2 + ["outputs"] * 5
    both = ["quantise", "quantise.fine", "linear.quantised", "linear.quantised", "linear.fine"]
    assert [node.kernel for node in nodes[2:7]] == both  # q k v of the first layer
    assert [node.wait for node in nodes[2:6]] == [False, True, False, False]
    stores = [node for node in nodes if node.kernel == "store.f16"]
    assert [node.reads["v"] for node in stores] == [node.writes["out"] for node in fine[:2]]
    assert not any(node.kernel == "linear.quantised" for node in nodes if node.rows == "outputs")
    assert [node.kernel for node in nodes[-2:]] == ["quantise.fine", "linear.fine"]  # which the view's end relies on


def test_float_types_are_not_quantised(tmp_path):
    assert not any("quantise" in node.kernel for node in lower(tmp_path, "gemma3", "BF16").nodes)


def test_rows_are_counted_as_outputs_from_there_on(tmp_path):
    nodes = lower(tmp_path).nodes
    first = [node.kernel for node in nodes].index("outputs")
    assert {node.rows for node in nodes[:first]} == {"tokens"} and {node.rows for node in nodes[first:]} == {"outputs"}


def test_chunks_of_weights_leave_work_for_every_worker(tmp_path):
    for threads in (1, 3):
        for node in lower(tmp_path, threads=threads).nodes:
            if node.record is record.LINEAR:
                chunks = -(-node.fields["rows"] // node.fields["chunk"])
                assert node.fields["chunk"] >= 1 and chunks >= threads


def test_heads_beyond_the_kernels_room_are_refused(tmp_path):
    with pytest.raises(UnsupportedError, match="attention heads of 584 dims; the kernels have room for 576"):
        lower(tmp_path, options={"key_dim": 584, "value_dim": 584, "heads": 1, "kv_heads": 1})


# Nodes made by hand


def node(reads, writes, alone=True, rows="tokens"):
    named = [{str(i): b for i, b in enumerate(buffers)} for buffers in (reads, writes)]
    return Node("kernel", record.OUTPUTS, {}, *named, rows, alone)


def test_a_slot_is_free_after_the_last_use():
    a, b, c, d = (Buffer(64) for _ in range(4))
    nodes = [node([], [a]), node([a], [b]), node([a, b], [c]), node([c], [d])]
    assert place(nodes) == [64, 64, 64]
    assert a.slot != b.slot and c.slot not in (a.slot, b.slot) and d.slot in (a.slot, b.slot)


def test_a_view_keeps_its_base_alive():
    a, b, c = (Buffer(64) for _ in range(3))
    view = Buffer(64, base=Buffer(64, base=a), offset=4)
    nodes = [node([], [a]), node([], [b]), node([view, b], [c])]
    place(nodes)
    assert len({a.slot, b.slot, c.slot}) == 3


def test_slots_of_another_stride_are_not_used():
    a, b, c = Buffer(64), Buffer(128), Buffer(64)
    assert place([node([], [a]), node([], [b]), node([], [c])]) == [64, 128]
    assert c.slot == a.slot


def waits(*nodes):
    place(nodes)
    mark_waits(nodes)
    mark_chains(nodes)
    return [n.wait for n in nodes], [n.chain for n in nodes]


def test_rows_of_ones_own_need_no_wait():
    a, b, c = (Buffer(64) for _ in range(3))
    assert waits(node([], [a]), node([a], [b]), node([b], [c])) == ([False, False, True], [3, 0, 0])


def test_rows_counted_differently_need_a_wait():
    a, b = Buffer(64), Buffer(64)
    assert waits(node([], [a]), node([a], [b], rows="outputs")) == ([True, True], [1, 1])


def test_all_rows_need_a_wait_before_and_after():
    a, b, c = (Buffer(64) for _ in range(3))
    assert waits(node([], [a]), node([a], [b], alone=False), node([b], [c])) == ([True, True, True], [1, 0, 1])


def test_readers_of_one_value_need_no_wait_between_them():
    a, b, c = (Buffer(64) for _ in range(3))
    nodes = node([], [a]), node([a], [b], alone=False), node([a], [c], alone=False), node([b, c], [Buffer(64)])
    assert waits(*nodes)[0] == [True, False, True, True]


def test_overwriting_what_others_still_read_needs_a_wait():
    a, b, c = Buffer(64), Buffer(128), Buffer(64)
    nodes = [node([], [a]), node([a], [b], alone=False), node([], [c])]  # c goes where a was
    assert waits(*nodes)[0] == [True, True, True] and c.slot == a.slot
