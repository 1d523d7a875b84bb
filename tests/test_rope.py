"""RoPE frequencies against values worked out by hand."""

import math
import types

import numpy as np
import pytest

from edgeinfer import config, rope
from edgeinfer.formats import gguf
from tests import tiny


def test_plain_frequencies_fall_geometrically_from_one():
    turned = rope.plain(8, 10_000.0, "adjacent")
    assert turned.frequencies == pytest.approx((1.0, 0.1, 0.01, 0.001))
    assert (turned.scale, turned.pairs) == (1.0, "adjacent")


def test_linear_divides_every_frequency():
    assert rope.linear(rope.plain(4, 100.0, "halves"), 4.0).frequencies == pytest.approx((0.25, 0.025))


def test_factors_divide_each_frequency_by_its_own():
    assert rope.divided(rope.plain(4, 100.0, "halves"), np.array([2.0, 5.0])).frequencies == pytest.approx((0.5, 0.02))


def yarn_config(factor, rope_betas=(32.0, 1.0), rope_log_multiplier=0.0):
    return types.SimpleNamespace(
        rope_base=10_000.0,
        rope_factor=factor,
        rope_context=1024,
        rope_betas=rope_betas,
        rope_log_multiplier=rope_log_multiplier,
    )


def test_yarn_keeps_fast_pairs_divides_slow_ones_and_ramps_between():
    # the pairs that turn 32 times and once in 1024 positions: 24 ln(1024 / 64 pi) / (2 ln 10000) = 2.1, and 6.6
    base = rope.plain(24, 10_000.0, "adjacent")
    turned = rope.yarn(base, yarn_config(4.0))
    ratio = np.array(turned.frequencies) / np.array(base.frequencies)
    assert ratio == pytest.approx([1, 1, 1, 0.85, 0.7, 0.55, 0.4] + [0.25] * 5)
    assert turned.scale == pytest.approx(1 + 0.1 * math.log(4))


def test_yarn_by_a_factor_of_one_changes_nothing():
    base = rope.plain(24, 10_000.0, "halves")
    turned = rope.yarn(base, yarn_config(1.0))
    assert turned.frequencies == pytest.approx(base.frequencies) and turned.scale == 1


def test_yarns_log_multiplier_takes_growth_back():
    base = rope.plain(24, 10_000.0, "halves")
    growth = 1 + 0.1 * math.log(4)
    assert rope.yarn(base, yarn_config(4.0, rope_log_multiplier=1.0)).scale == 1
    assert rope.yarn(base, yarn_config(4.0, rope_log_multiplier=2.0)).scale == pytest.approx(growth / (2 * growth - 1))


def test_yarns_betas_move_the_ramp():
    # with 8 turns in place of 32 the ramp begins at 24 ln(1024 / 16 pi) / (2 ln 10000) = 3.9
    base = rope.plain(24, 10_000.0, "adjacent")
    turned = rope.yarn(base, yarn_config(4.0, rope_betas=(8.0, 1.0)))
    assert np.array(turned.frequencies)[:6] / np.array(base.frequencies)[:6] == pytest.approx(
        [1, 1, 1, 1, 0.8125, 0.625]
    )


SCALINGS = {
    "none": ({"rope.scaling.type": "none", "rope.scaling.factor": 4.0}, (1.0, 0.1), 1.0),
    "linear": ({"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}, (0.25, 0.025), 1.0),
    "linear by default": ({"rope.scaling.factor": 4.0}, (0.25, 0.025), 1.0),
    "old key": ({"rope.scale_linear": 2.0}, (0.5, 0.05), 1.0),
    "zero is none": ({"rope.scaling.factor": 0.0}, (1.0, 0.1), 1.0),
    "attention factor": ({"rope.scaling.type": "longrope", "rope.scaling.attn_factor": 1.5}, (1.0, 0.1), 1.5),
    "yarn": (
        {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.attn_factor": 0.5},
        (
            1.0,
            0.1 * (0.5 + 0.5 / 4),
        ),  # of 256 positions: 4 ln(256 / 64 pi) / (2 ln 100) = 0.1, ... 1.6: ramp from 0 to 2
        0.5 * (1 + 0.1 * math.log(4)),
    ),
}


@pytest.mark.parametrize("keys, frequencies, scale", SCALINGS.values(), ids=SCALINGS.keys())
def test_the_files_keys_choose_the_scaling(tmp_path, keys, frequencies, scale):
    def edit(metadata, tensors):
        metadata.update({f"llama.{key}": value for key, value in keys.items()})
        metadata.update({"llama.rope.dimension_count": 4, "llama.rope.freq_base": 100.0})

    with gguf.open(tiny.write(tmp_path / "m.gguf", edit=edit)) as file:
        turned = rope.of_model(config.read(file), "halves")
    assert turned.frequencies == pytest.approx(frequencies)
    assert turned.scale == pytest.approx(scale)
