"""What `edgeinfer show` says of good, strange and bad files."""

import json

from edgeinfer import memory, plan
from edgeinfer.formats import gguf
from tests import markov, tiny
from tests.models import decoders, encoders


def test_the_facts_of_a_file(edgeinfer, tmp_path):
    path = tiny.write(tmp_path / "m.gguf", types={"token_embd": "Q8_0", "": "Q4_0"})
    shown = json.loads(edgeinfer("show", path, "--json").stdout)
    assert shown["architecture"] == "llama" and shown["layers"] == 2 and shown["context"] == 256
    assert shown["bytes"] == path.stat().st_size and shown["chat_template"] is False
    with gguf.open(path) as file:
        assert sum(shown["tensors"].values()) == len(file.tensors)
        assert shown["parameters"] == sum(tensor.float32().size for tensor in file.tensors.values())
        sizes = {
            name: sum(tensor.nbytes for tensor in file.tensors.values() if tensor.type.name == name)
            for name in shown["tensors"]
        }
    assert shown["tensors"] == {"Q4_0": 15, "F32": 5, "Q8_0": 1} and shown["bytes_by_type"] == sizes


def test_a_name_commands_no_terminal(edgeinfer, tmp_path):
    def rename(keys, tensors):
        keys["general.name"] = "nice\n\x1b[2Jname"

    shown = edgeinfer("show", tiny.write(tmp_path / "m.gguf", edit=rename)).stdout
    assert "name           nice\\n\\x1b[2Jname\n" in shown and "\x1b" not in shown


def test_memory_is_that_of_the_context_asked_for(edgeinfer, tmp_path):
    path = tiny.write(tmp_path / "m.gguf", "gemma3")
    with gguf.open(path) as file:
        traced = plan.trace(file)
    for arguments, n_ctx, kv_type in [([], 256, "f16"), (["--ctx", "64", "--kv-type", "f32"], 64, "f32")]:
        need = json.loads(edgeinfer("show", path, "--json", *arguments).stdout)["memory"]
        assert (need["context"], need["kv_bytes"]) == (n_ctx, memory.kv_bytes(traced, kv_type, n_ctx, 512))


def test_a_context_beyond_the_models_is_lowered_and_that_is_said(edgeinfer, tmp_path):
    done = edgeinfer("show", tiny.write(tmp_path / "m.gguf"), "--json", "--ctx", "300")
    assert json.loads(done.stdout)["memory"]["context"] == 256
    assert done.stderr == "edgeinfer: n_ctx 300 is lowered to the 256 tokens the model states\n"


def test_what_an_encoder_is_made_to_do(edgeinfer, tmp_path):
    for name, made_to in (("bert", "to        embed texts (cls pooling)"), ("xlm-r", "to        rank texts")):
        shown = edgeinfer("show", encoders.CASES[name].write(tmp_path / "m.gguf")).stdout
        lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
        assert lines["made"] == made_to and "chat" not in lines


def test_what_a_model_that_answers_is_made_to_do(edgeinfer, tmp_path):
    shown = edgeinfer("show", decoders.ANSWERS["t5"].write(tmp_path / "m.gguf")).stdout
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert lines["made"] == "to        read a text as a whole and answer it (encoder and decoder)"
    assert lines["chat"] == "template  no: it answers texts"


def test_the_facts_in_words(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", ["a"], markov.chain(), template="{{ messages[-1].content }}")
    done = edgeinfer("show", path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in done.stdout.splitlines())
    assert lines["architecture"].startswith("llama; layers 1") and lines["tensors"] == "12 F32 (2.0 MB)"
    assert lines["context"] == "256 tokens" and lines["licence"] == "not stated"
    assert lines["chat"] == "template  chat, tool results"
    assert "KV in f16" in lines["memory"] and lines["each"].startswith("token     reads 1.7 MB")


def test_a_model_that_cannot_run_is_shown_with_the_reason(edgeinfer, tmp_path):
    def other(keys, tensors):
        keys["general.architecture"] = "zzz"

    shown = json.loads(edgeinfer("show", tiny.write(tmp_path / "m.gguf", edit=other), "--json").stdout)
    assert shown["architecture"] == "zzz" and "'zzz'" in shown["cannot_run"] and "supported" in shown["cannot_run"]


def test_memory_is_told_by_length_of_context(edgeinfer, tmp_path):
    def longer(keys, tensors):
        keys["llama.context_length"] = 4096

    path = tiny.write(tmp_path / "m.gguf", edit=longer)
    for arguments, contexts in (([], [512, 2048, 4096]), (["--ctx", "2048"], [512, 2048])):
        rows = json.loads(edgeinfer("show", path, "--json", *arguments).stdout)["memory_by_context"]
        assert [row["context"] for row in rows] == contexts
    assert rows[0]["kv_bytes"] * 4 == rows[1]["kv_bytes"] and "at 2048" in edgeinfer("show", path).stdout


def test_a_tokenizer_or_a_memory_that_stops_it_is_told(edgeinfer, tmp_path):
    def other(keys, tensors):
        keys["tokenizer.ggml.model"] = "runes"

    shown = json.loads(edgeinfer("show", tiny.write(tmp_path / "m.gguf", edit=other), "--json").stdout)
    assert "'runes'" in shown["cannot_run"] and shown["architecture"] == "llama" and shown["bytes_per_token"] > 0

    def endless(keys, tensors):
        keys["llama.context_length"] = 1 << 30

    said = edgeinfer("show", tiny.write(tmp_path / "m.gguf", edit=endless)).stdout
    assert "cannot run     a context of 1073741824 tokens needs" in said


def test_an_unknown_kv_type_is_the_users_mistake(edgeinfer, tmp_path):
    assert "'q9'" in edgeinfer.fails(2, "show", tiny.write(tmp_path / "m.gguf"), "--kv-type", "q9")


def test_a_model_that_is_not_pulled_is_not_fetched(edgeinfer):
    assert "edgeinfer pull smollm2-135m-instruct" in edgeinfer.fails(2, "show", "smollm2")
