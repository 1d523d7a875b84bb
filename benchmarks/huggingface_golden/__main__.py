"""Writes tests/huggingface/golden: what small random models of every class give, by Hugging Face's transformers.

    python -m benchmarks.huggingface_golden [CASE ...]

Needs torch and transformers, which edgeinfer itself does not.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
import tempfile
from unittest import mock

import numpy as np
import torch
import transformers
from safetensors import safe_open
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.models.hy_v4 import modeling_hy_v4
from transformers.models.hy_v4_vl import modeling_hy_v4_vl

from benchmarks.huggingface_golden import answers, dense, encoders, experts, gemma, latent, recurrent, vision
from benchmarks.huggingface_golden.settings import BASE, LEFT_OUT, Cases
from benchmarks.huggingface_golden.twins import TWINS
from tests.huggingface import golden

GENERATING: Cases = {
    **dense.CASES,
    **experts.CASES,
    **latent.CASES,
    **gemma.CASES,
    **recurrent.CASES,
    **vision.CASES,
}
STATED = {  # the class that such folders state
    "exaone": "ExaoneForCausalLM",
    "internlm3": "InternLM3ForCausalLM",
    "xverse": "XverseForCausalLM",
    "orion": "OrionForCausalLM",
    "minicpm": "MiniCPMForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "deepseek": "DeepseekForCausalLM",
    "mpt-hub": "MPTForCausalLM",
    "sarvam_moe": "SarvamMoEForCausalLM",
    "bailing_moe_v2": "BailingMoeV2ForCausalLM",
    "bailing_moe": "BailingMoeForCausalLM",
    "bailing_hybrid-hub": "BailingMoeV3ForCausalLM",
    "gemma3n-text-part": "Gemma3nForConditionalGeneration",
    "step3p5": "Step3p5ForCausalLM",
}
PARTS = ("gemma3n-text-part",)  # of a model whose other parts want further libraries: made alone, named as in the whole
COMPUTED = ("slope_rate", "_decay")  # which transformers stores, but computes where they are missing
PUBLISHED = (  # names of Hunyuan 4's tensors, of which transformers stores others than it was given
    (r"\.hc_pre\.(hc_\w+_layer)\.", r".\1.hc_pre."),
    (r"^model\.(?:hc_pre\.hc_head|hc_head\.hc_pre)\.", "model.hc_head."),
    (r"\.(mlp|shared_experts)\.linear_gate\.", r".\1.gate_proj."),
)
TEXT = re.compile(r"(?:model\.(?:layers|(?:embed_tokens|word_embeddings|norm)\.)|lm_head\.)")
ALONE = ("step3p5", "deepseek", "bailing_moe")  # the text part of a model, whose folders state it alone


def sample_deviation(x: torch.Tensor, dim: int, keepdim: bool, unbiased: bool) -> torch.Tensor:
    """That of all numbers where transformers takes it, of a sample in GGUF's Gemma 3n: the same for real widths."""
    return ((x - x.mean(dim, keepdim)) ** 2).sum(dim, keepdim).div(x.shape[dim] - 1).sqrt()


def published(name: str) -> str:
    for pattern, by in PUBLISHED:
        name = re.sub(pattern, by, name)
    return name


def make(name: str) -> None:
    wanted, changes = {**GENERATING, **encoders.CASES, **answers.CASES}[name]
    settings = {key: value for key, value in {**BASE, **changes}.items() if value is not None or key not in LEFT_OUT}
    if wanted.islower():  # by the type of its config, where transformers has another class for it
        config, model_class = transformers.AutoConfig.for_model(wanted, **settings), transformers.AutoModelForCausalLM
        model = model_class.from_config(config)
    else:
        model_class = getattr(transformers, wanted)
        model = model_class(model_class.config_class(**settings))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        path = pathlib.Path(folder, "model.safetensors")
        with safe_open(path, "np") as file:
            names = [key for key in file.keys() if not key.endswith(COMPUTED)]  # noqa: SIM118
            shapes = {key: tuple(file.get_slice(key).get_shape()) for key in names}
        if name.endswith("untied"):  # which T5's classes are made as, but not saved
            shapes["lm_head.weight"] = shapes["shared.weight"]
        tensors, kept = TWINS[name](shapes) if name in TWINS else ({}, {})
        for key, shape in shapes.items() if name not in TWINS else ():
            if name.endswith("mxfp4") and key.endswith(("gate_up_proj", "down_proj")):
                count, cols, rows = shape  # transposed; the blocks are not
                parts = {f"{key}_blocks": (count, rows, cols // 32, 16), f"{key}_scales": (count, rows, cols // 32)}
                blocks, scales = (torch.from_numpy(golden.weights(part, size)) for part, size in parts.items())
                tensors[key] = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).contiguous().numpy()
                kept |= parts
            else:
                given = published(key)
                stored = key.replace("model.", "model.language_model.", 1) if name in PARTS else given
                tensors[given], kept[stored] = golden.weights(stored, shape), shape
        shapes = kept
        golden.write_safetensors(path, tensors)
        model = model_class.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
        saved = json.loads(pathlib.Path(folder, "config.json").read_text())
    if name in encoders.CASES:
        keep(name, saved, shapes, **encoded(model))
        return
    if name in answers.CASES:
        ids = torch.tensor([golden.IDS])
        with torch.no_grad():
            logits = model(ids, decoder_input_ids=ids.flip(1)).logits[0].numpy()
        keep(name, saved, shapes, logits=logits)
        return
    if wanted == "Llama4ForConditionalGeneration":  # which fails without a picture
        model = model.language_model
    turned = mock.patch.object(modeling_hy_v4, "apply_rotary_pos_emb", modeling_hy_v4_vl.apply_rotary_pos_emb)
    with torch.no_grad(), mock.patch.object(torch, "std", sample_deviation), turned:
        logits = model(torch.tensor([golden.IDS]), use_cache=False).logits[0].numpy()
    logits = logits[:, -golden.VOCAB :]  # Chameleon's first ones are those of pictures
    assert np.isfinite(logits).all() and logits.std() > 0.05, (name, logits.std())
    saved = {"text_config": saved} if name in PARTS else saved["text_config"] if name in ALONE else saved
    saved["architectures"] = [STATED.get(name, wanted)]
    if name in ALONE:
        shapes = {key: shape for key, shape in shapes.items() if TEXT.match(key)}
    if name.endswith("mxfp4"):
        saved["quantization_config"] = {"quant_method": "mxfp4"}
    keep(name, saved, shapes, logits=logits)


@torch.no_grad()
def encoded(model: torch.nn.Module) -> dict[str, np.ndarray]:
    """The last row of each token, and the score where the model gives one."""
    ids = torch.tensor([golden.IDS])
    rows = {"rows": model.base_model(ids).last_hidden_state[0].numpy()}
    return rows | ({"score": model(ids).logits[0].numpy()} if "SequenceClassification" in type(model).__name__ else {})


def keep(name: str, config: dict[str, object], shapes: dict[str, tuple[int, ...]], **numbers: np.ndarray) -> None:
    config = {key: value for key, value in config.items() if key not in ("transformers_version", "dtype")}
    folder = golden.FOLDER
    if name in (*encoders.CASES, *answers.CASES):
        folder = golden.ENCODERS if name in encoders.CASES else golden.ANSWERS
    folder.mkdir(exist_ok=True)
    np.savez_compressed(folder / f"{name}.npz", config=json.dumps(config), shapes=json.dumps(shapes), **numbers)
    print(name, *(f"{kind}: deviation {x.std():.2f}" for kind, x in numbers.items()))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    for case in sys.argv[1:] or [*GENERATING, *encoders.CASES, *answers.CASES]:
        make(case)
