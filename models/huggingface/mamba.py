"""Mamba and Falcon-Mamba: the decay as a logarithm, the convolution with an axis more."""

from edgeinfer.huggingface import usual
from edgeinfer.huggingface.writer import Writer

ARCH = "mamba"
CLASSES = ("MambaForCausalLM", "FalconMambaForCausalLM")
MODEL = {"token_embd": "backbone.embeddings", "output_norm": "backbone.norm_f", "output": "lm_head"}
LINEAR = {"ssm_in": "in_proj", "ssm_x": "x_proj", "ssm_dt": "dt_proj", "ssm_out": "out_proj"}


def write(w: Writer) -> None:
    falcon = w.config.text("model_type", default="mamba") == "falcon_mamba"
    usual.expect_activation(w, "silu")
    inner = w.config.integer("intermediate_size", default=w.config.integer("expand", default=2) * usual.dim(w))
    sizes(w)
    rank = w.config.integer("time_step_rank")
    keys(w, inner, w.config.integer("state_size"), rank, w.config.integer("conv_kernel"))
    w.key("ssm.dt_b_c_rms", falcon)
    usual.head(w, MODEL)
    for _ in w.layers(usual.layers(w), "backbone.layers"):
        w.copy({"attn_norm": "norm"})
        mixer(w, "mixer")


def sizes(w: Writer) -> None:
    """The numbers of a model without attention, Mamba 2's too."""
    w.key("block_count", usual.layers(w))
    w.key("context_length", 1 << 20)  # any
    w.key("embedding_length", usual.dim(w))
    w.key("feed_forward_length", 0)
    w.key("attention.head_count", 0)
    usual.epsilon(w)


def keys(w: Writer, inner: int, state: int, rank: int, kernel: int) -> None:
    w.key("ssm.inner_size", inner)
    w.key("ssm.state_size", state)
    w.key("ssm.time_step_rank", rank)
    w.key("ssm.conv_kernel", kernel)


def mixer(w: Writer, source: str) -> None:
    """Also Jamba's and Mamba 2's."""
    w.copy({name: f"{source}.{linear}" for name, linear in LINEAR.items()})
    conv = w.take(f"{source}.conv1d.weight")
    w.put("ssm_conv1d.weight", conv.reshape(conv.shape[0], conv.shape[-1]))
    w.copy({"ssm_conv1d": f"{source}.conv1d"})
    w.put("ssm_a", w.take(f"{source}.A_log"), change=usual.decay)
    w.put("ssm_d", w.take(f"{source}.D"))
