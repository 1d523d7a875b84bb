"""bench: the tests asked for, each beside the machine's limit; how fast it is is no test."""

import csv
import io
import json
import os
import sys

import pytest

from tests import tiny
from tests.cli.conftest import Command
from tests.models import encoders

LLAMA_BENCH = (
    "build_commit build_number cpu_info gpu_info backends model_filename model_type model_size model_n_params n_batch "
    "n_ubatch n_threads type_k type_v n_gpu_layers flash_attn use_mmap n_prompt n_gen n_depth test_time avg_ns "
    "stddev_ns avg_ts stddev_ts samples_ns samples_ts"
).split()
QUICK = ("-t", "1", "-r", "1", "--no-warmup")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def edgeinfer(home):
    """A `Command` that keeps its kernels from one test to the next."""
    return Command({"EDGEINFER_HOME": str(home)})


@pytest.fixture
def model(tmp_path):
    tiny.write(tmp_path / "tiny.gguf", arch="llama", types="Q8_0")
    return tmp_path / "tiny.gguf"


def test_a_row_for_every_test_and_number_of_threads(edgeinfer, model):
    rows = json.loads(edgeinfer("bench", model, "-p", "8,16", "-n", "4", "-t", "1,2", "-r", "2", "--json").stdout)
    tests = [(row["n_threads"], row["n_prompt"], row["n_gen"]) for row in rows]
    assert tests == [(t, p, n) for t in (1, 2) for p, n in ((8, 0), (16, 0), (0, 4))]
    for row in rows:
        assert len(row["samples_ts"]) == 2 and min(row["samples_ts"]) > 0
        assert row["limit"] > 0 and row["share_of_limit"] > 0


def test_the_keys_are_those_of_llama_bench(edgeinfer, model):
    (row,) = json.loads(edgeinfer("bench", model, "-p", "8", "-n", "0", *QUICK, "--json").stdout)
    assert list(row)[: len(LLAMA_BENCH)] == LLAMA_BENCH
    assert row["avg_ns"] == row["samples_ns"][0] and row["avg_ts"] == pytest.approx(8e9 / row["avg_ns"], rel=1e-6)
    assert row["model_n_params"] > 0 and row["model_size"] == model.stat().st_size and row["type_k"] == "f16"


def test_a_table(edgeinfer, model):
    arguments = ("-p", "8", "-n", "4", "-pg", "6,2", "-d", "16", "--rows", "1,3")
    lines = edgeinfer("bench", model, *arguments, *QUICK).stdout.splitlines()
    names = [line.split("|")[6].strip(" -") for line in lines]
    assert names == ["test", "", "pp8 @ d16", "tg4 @ d16", "pp6+tg2 @ d16", "rows1 @ d16", "rows3 @ d16"]


def test_other_forms_have_the_same_rows(edgeinfer, model):
    def said(form):
        return edgeinfer("bench", model, "-p", "8", "-n", "4", *QUICK, "-o", form).stdout

    assert [json.loads(line)["test"] for line in said("jsonl").splitlines()] == ["pp8", "tg4"]
    assert [row["test"] for row in csv.DictReader(io.StringIO(said("csv")))] == ["pp8", "tg4"]
    assert "'xml'; must be one of md, json," in edgeinfer.fails(2, "bench", model, "-o", "xml")


def test_phases_name_the_operations_and_add_up(edgeinfer, model):
    (row,) = json.loads(edgeinfer("bench", model, "-p", "0", "-n", "4", *QUICK, "--phases", "--json").stdout)
    names = [phase["name"] for phase in row["phases"]]
    assert {"linear Q8_0", "linear Q8_0 (output)", "attention", "waiting", "around"} <= set(names)
    assert any("quantise" in name for name in names)
    linear = row["phases"][names.index("linear Q8_0")]
    assert linear["bytes"] == linear["products"] * 34 // 32 and all(phase["ns"] >= 0 for phase in row["phases"])
    table = edgeinfer("bench", model, "-p", "0", "-n", "4", *QUICK, "--phases").stdout
    assert "| tg4, 1 threads" in table


def test_the_start_is_measured_cold_and_warm(edgeinfer, model):
    arguments = ("-p", "0", "-n", "1", *QUICK, "--start", "--json")
    rows = json.loads(edgeinfer("bench", model, *arguments).stdout)
    assert [row["test"] for row in rows] == ["tg1", "start, cold", "start, warm"]
    assert rows[1]["avg_ns"] > rows[2]["avg_ns"] > 0


def test_a_picture_needs_matplotlib_and_is_one(edgeinfer, model, tmp_path):
    arguments = ("bench", model, "-p", "8", "-n", "4", *QUICK, "--plot", tmp_path / "roofline.png")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert "edgeinfer[plot]" in edgeinfer.fails(2, *arguments)
        return
    assert edgeinfer(*arguments).returncode == 0
    assert (tmp_path / "roofline.png").read_bytes()[:4] == b"\x89PNG"


@pytest.fixture
def fake_peer(edgeinfer, tmp_path):
    """A package llama_cpp that decodes nothing; the path of this interpreter, which finds it."""
    (tmp_path / "peer").mkdir()
    (tmp_path / "peer" / "llama_cpp.py").write_text(
        "from unittest.mock import MagicMock\n"
        "llama_log_callback = llama_log_set = llama_memory_clear = llama_get_memory = llama_synchronize = MagicMock()\n"
        "llama_model_load_from_file = llama_model_default_params = llama_model_get_vocab = llama_init_from_model = (\n"
        "    llama_context_default_params\n) = MagicMock()\n"
        "llama_vocab_n_tokens, llama_batch_get_one, llama_decode = lambda v: 300, lambda *a: a, lambda c, b: 0\n"
        "llama_model_has_encoder = lambda m: False\n"
    )
    edgeinfer.environment["PYTHONPATH"] = str(tmp_path / "peer")
    return sys.executable


def test_a_peer_takes_turns(edgeinfer, model, fake_peer):
    arguments = ("-p", "8", "-n", "4", "--rows", "2", *QUICK, "--vs", fake_peer, "--json")
    rows = json.loads(edgeinfer("bench", model, *arguments).stdout)
    assert [(row["test"], row["backends"]) for row in rows] == [
        ("pp8", "llama.cpp"), ("pp8", "edgeinfer"), ("tg4", "llama.cpp"), ("tg4", "edgeinfer"), ("rows2", "edgeinfer")
    ]  # fmt: skip
    assert rows[1]["times"] > 0 and "times" not in rows[4]


def test_peers_that_do_not_run_are_the_users_mistake(edgeinfer, model, tmp_path):
    said = edgeinfer.fails(2, "bench", model, *QUICK, "-p", "8", "--vs", sys.executable)
    assert "llama-cpp-python does not run there" in said and "llama_cpp" in said
    assert "No such file" in edgeinfer.fails(2, "bench", model, *QUICK, "-p", "8", "--vs", tmp_path / "none")


@pytest.mark.skipif(os.name == "nt", reason="scripts with a shebang")
@pytest.mark.parametrize(
    ("script", "words"),
    [("exit 3", "it ended with code 3 and no word"), ("echo Hi; sleep 600", "it said 'Hi'"), ("kill -9 $$", "code -9")],
)
def test_what_is_no_python_says_so_at_once(edgeinfer, model, tmp_path, script, words):
    (tmp_path / "other").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "other").chmod(0o755)
    assert words in edgeinfer.fails(2, "bench", model, *QUICK, "-p", "8", "--vs", tmp_path / "other")


@pytest.mark.parametrize(
    "arguments",
    [("-p", "many"), ("-p", "²"), ("-d", "9" * 30), ("-n", "-4"), ("-pg", "4"), ("-pg", "4,0"), ("--rows", "x")],
)
def test_numbers_that_are_none(edgeinfer, model, arguments):
    assert "must be" in edgeinfer.fails(2, "bench", model, *arguments)


@pytest.mark.parametrize("arguments", [("-t", "0"), ("-t", "1,1000"), ("--kv-type", "q4_0"), ("--weights", "none")])
def test_settings_that_no_model_has(edgeinfer, model, arguments):
    assert "must be" in edgeinfer.fails(2, "bench", model, *QUICK, *arguments)


def test_nothing_to_measure(edgeinfer, model):
    assert "nothing to measure" in edgeinfer.fails(2, "bench", model, "-p", "0", "-n", "0")


def test_what_does_not_generate_is_not_measured(edgeinfer, tmp_path):
    path = encoders.CASES["bert"].write(tmp_path / "m.gguf")
    assert "cannot generate" in edgeinfer.fails(2, "bench", path, *QUICK, "-p", "512", "-n", "8")


def test_more_than_the_models_context_is_measured_with_a_word(edgeinfer, model):
    for prompt in (256, 257):
        done = edgeinfer("bench", model, *QUICK, "-p", prompt, "-n", "0", "--json")
        assert [row["n_prompt"] for row in json.loads(done.stdout)] == [prompt]
        assert ("257 tokens are more than the 256 the model states" in done.stderr) == (prompt > 256)
