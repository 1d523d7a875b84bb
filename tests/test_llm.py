"""The interface for Python programs: arguments, errors, reuse, threads and closing, on tiny models."""

import copy
import functools
import os
import pickle
import subprocess
import sys
import threading

import gguf as gguf_package
import numpy as np
import psutil
import pytest

from edgeinfer import LLM, machine
from edgeinfer.errors import BackendError, ContextFullError, FormatError, RequestError
from edgeinfer.formats import gguf
from edgeinfer.simd_kernels import guard
from tests import markov, tiny

GREEDY = {"temperature": 0.0, "ignore_eos": True}
TEMPLATE = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}
{{- '<|im_start|>assistant\n' }}"""
PROMPT = [*range(40, 60), 7, 9]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Files of random models by architecture; llama has a chat template."""
    folder = tmp_path_factory.mktemp("models")

    def add_template(keys, tensors):
        keys["tokenizer.chat_template"] = TEMPLATE

    return {
        "llama": tiny.write(folder / "llama.gguf", "llama", edit=add_template),
        "gemma3": tiny.write(folder / "gemma3.gguf", "gemma3", vocab="spm"),
    }


@pytest.fixture(params=["reference", "cpu"])
def load(request, paths):
    """A function that loads a model by either backend; closed at the end of the test."""
    opened = []

    def open_model(arch="llama", **options):
        options = {"kv_type": "f32", "n_threads": 1, "n_batch": 16, **options}
        opened.append(LLM(paths[arch], backend=request.param, **options))
        return opened[-1]

    yield open_model
    for llm in opened:
        llm.close()


@pytest.fixture
def llm(paths):
    with LLM(paths["llama"], backend="reference", n_batch=16) as llm:
        yield llm


def ask(content):
    return [{"role": "user", "content": content}]


# arguments


def test_properties(llm, paths):
    assert (llm.n_ctx, llm.n_vocab, llm.n_batch, llm.kv_type) == (256, tiny.VOCAB, 16, "f32")
    assert llm.path == str(paths["llama"]) and llm.n_threads == machine.cores()
    assert llm.metadata["general.name"] == "tiny llama"


@pytest.mark.parametrize(
    "options, text",
    [
        ({"n_ctx": 0}, "n_ctx is 0; must be 1 or more"),
        ({"n_ctx": 1.5}, "n_ctx is '1.5'; must be an integer"),
        ({"n_threads": 0}, "n_threads is 0; must be 1 to 256"),
        ({"n_threads": 257}, "n_threads is 257; must be 1 to 256"),
        ({"n_threads": True}, "n_threads is 'True'; must be an integer"),
        ({"n_batch": 0}, "n_batch is 0; must be 1 to 65536"),
        ({"backend": "gpu"}, "backend is 'gpu'; must be one of cpu, reference"),
        ({"backend": "cpu", "kv_type": "q4_0"}, "kv_type is 'q4_0'; must be one of f32, f16, q8_0"),
    ],
)
def test_wrong_arguments_of_loading(paths, options, text):
    with pytest.raises(RequestError) as error:
        LLM(paths["llama"], **{"backend": "reference", **options})
    assert text in str(error.value)


def test_missing_files_and_names(tmp_path):
    with pytest.raises(FormatError, match="gone.gguf"):
        LLM(tmp_path / "gone.gguf")
    with pytest.raises(RequestError, match="nosuchmodel"):
        LLM("nosuchmodel")


@pytest.mark.parametrize(
    "options, text",
    [
        ({"temprature": 1}, "unknown option temprature; did you mean temperature?"),
        ({"max_token": 1}, "unknown option max_token; did you mean max_tokens?"),
        ({"repeat_penalties": 1}, "unknown option repeat_penalties; did you mean repeat_penalty?"),
        ({"zzz": 1}, "unknown option zzz; there are temperature, top_k"),
        ({"top_p": 2}, "top_p"),
        ({"seed": -1}, "seed"),
        ({"max_tokens": -1}, "max_tokens is -1; must be 0 or more"),
        ({"max_tokens": "9"}, "max_tokens is '9'; must be an integer"),
        ({"stop": ""}, "stop must be"),
        ({"stop": ["a", ""]}, "stop must be"),
        ({"stop": [b"a"]}, "stop must be"),
        ({"stop": 5}, "stop must be"),
        ({"logit_bias": {300: 1.0}}, "300"),
    ],
)
def test_wrong_arguments_of_requests_are_raised_by_the_call(llm, options, text):
    for call in (llm.generate, llm.stream, lambda prompt, **o: llm.chat_stream(ask(prompt), **o)):
        with pytest.raises(RequestError) as error:
            call("a", **options)
        assert text in str(error.value) and "\n" not in str(error.value)


def test_absent_options_may_be_none(llm):
    plain = llm.generate("a", max_tokens=4, **GREEDY)
    for options in ({"stop": None}, {"logit_bias": None}, {"logit_bias": {}}, {"seed": None}):
        assert llm.generate("a", max_tokens=4, **GREEDY, **options).ids == plain.ids


def test_context_shrinks_where_memory_is_short(paths, monkeypatch):
    path = tiny.write(paths["llama"].parent / "long.gguf", context=100_000)
    monkeypatch.setattr(machine, "available_memory", lambda: 4 * 512 * 1000)  # 512 bytes of KV a token, in f32
    with LLM(path, backend="reference", n_batch=16) as llm:
        assert llm.n_ctx == 768
    with pytest.raises(BackendError, match=r"100000 tokens needs .* \(KV in f32 51\.2 MB, .* 2\.0 MB are available"):
        LLM(path, backend="reference", n_ctx=100_000)


# tokens


def test_tokens_and_back(llm):
    text = "the token is — a\ttest\n".encode()
    ids = llm.tokenize(text)
    assert ids == llm.tokenize(text.decode()) and llm.detokenize(ids) == text
    assert llm.tokenize("<|im_end|>", parse_special=True) == [299] != llm.tokenize("<|im_end|>")
    assert (llm.detokenize([299]), llm.detokenize([299], special=True)) == (b"", b"<|im_end|>")
    assert llm.detokenize(llm.tokenize(b"\xff\xfe")) == b"\xff\xfe"
    with pytest.raises(RequestError, match="300 is outside"):
        llm.detokenize([1, 300])


# logits


def test_logits_are_the_same_in_steps_of_any_size(load):
    whole = load(n_batch=64).logits(PROMPT)
    assert whole.shape == (len(PROMPT), tiny.VOCAB) and whole.dtype == np.float32
    for n_batch in (1, 7):
        np.testing.assert_allclose(load(n_batch=n_batch).logits(PROMPT), whole, atol=2e-2, rtol=0)


def test_logits_begin_at_an_empty_context(load):
    llm = load()
    fresh = llm.logits(PROMPT)
    llm.generate(PROMPT[:5], max_tokens=5, **GREEDY)
    assert np.array_equal(llm.logits(PROMPT), fresh)
    assert llm.generate(PROMPT, max_tokens=1, **GREEDY).ids == [int(fresh[-1].argmax())]


def test_logits_of_impossible_ids(llm, monkeypatch):
    with pytest.raises(RequestError, match="no token ids"):
        llm.logits([])
    with pytest.raises(RequestError, match="300 is outside the vocabulary of 300"):
        llm.logits([1, 300])
    with pytest.raises(ContextFullError, match="257 tokens; n_ctx 256"):
        llm.logits([1] * 257)
    monkeypatch.setattr(machine, "available_memory", lambda: 10_000)
    with pytest.raises(BackendError, match=r"10 positions x 300 tokens need 0\.0 MB"):
        llm.logits([1] * 10)


# reuse


@pytest.mark.parametrize("arch", ["llama", "gemma3"])
def test_warm_answers_equal_cold_ones(load, arch):
    warm, rng = load(arch), np.random.default_rng(0)
    base = rng.integers(20, 290, 60).tolist()
    for common in (0, 1, 5, 16, 33, 59, 60, 60):
        prompt = base[:common] + rng.integers(20, 290, 5).tolist()
        cold = load(arch).logits(prompt + warm.generate(prompt, max_tokens=8, **GREEDY).ids)
        answer = warm.generate(prompt, max_tokens=8, **GREEDY)
        rows = cold[len(prompt) - 1 :]
        for row, id in zip(rows, answer.ids, strict=False):
            assert row[id] > row.max() - 0.05  # the best, but for ties within the rounding of the cpu backend


def test_same_request_again_reads_one_token(load):
    llm = load()
    first, again = (llm.generate(PROMPT, max_tokens=4, **GREEDY) for _ in range(2))
    assert first.ids == again.ids
    assert (first.usage.cached_tokens, again.usage.cached_tokens) == (0, len(PROMPT) - 1)


def test_continuation_on_sliding_windows_reads_only_what_is_new(load):
    llm = load("gemma3")
    answer = llm.generate(PROMPT * 3, max_tokens=10, **GREEDY)
    longer = [*PROMPT * 3, *answer.ids, 30, 31]
    assert llm.generate(longer, max_tokens=1, **GREEDY).usage.cached_tokens == len(longer) - 3


def test_seeded_answers_do_not_depend_on_what_ran_before(load):
    llm = load()
    settings = {"max_tokens": 12, "temperature": 1.5, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 5}

    def answer(prompt):
        return llm.generate(prompt, **settings)

    first = answer(PROMPT)
    answer(PROMPT[:10])
    llm.generate(PROMPT[:15], max_tokens=4)
    assert answer(PROMPT).ids == answer(PROMPT).ids == first.ids
    assert first.ids != llm.generate(PROMPT, **{**settings, "seed": 6}).ids
    assert len({tuple(llm.generate(PROMPT, **{**settings, "seed": None}).ids) for _ in range(3)}) == 3


# chats


def test_second_turn_reads_only_what_is_new(load):
    llm = load()
    options = {"temperature": 0.0, "logit_bias": dict.fromkeys(range(94, 256), -np.inf)}  # no parts of characters
    first = llm.chat(ask("a token of the code"), max_tokens=8, **options)
    assert first.usage.completion_tokens > 2
    turns = [*ask("a token of the code"), {"role": "assistant", "content": first.text}, *ask("and so on")]
    new = "<|im_end|>\n<|im_start|>user\nand so on<|im_end|>\n<|im_start|>assistant\n"
    usage = llm.chat(turns, max_tokens=4, **options).usage
    assert usage.prompt_tokens == first.usage.total_tokens + len(llm.tokenize(new, parse_special=True))
    assert usage.cached_tokens == first.usage.total_tokens - (first.finish_reason == "length")


def test_spelling_of_the_model_is_kept_over_turns(tmp_path):
    # the model spells its answer "a", "b" where the tokenizer would take "ab"
    a, b, ab, user, end = range(markov.FIRST, markov.FIRST + 5)
    template = "{% for m in messages %}<u>{{ m.content }}<e>{% endfor %}<u>"
    table = markov.chain((user, a), (a, b), (b, end))
    tokens = ["a", "b", "ab", "<u>", "<e>"]
    path = markov.write(tmp_path / "m.gguf", tokens, table, template=template, control=tokens[3:])
    with LLM(path, backend="reference") as llm:
        first = llm.chat(ask("x"), temperature=0.0, stop="q", max_tokens=2)
        assert (first.text, first.ids) == ("ab", [a, b])
        second = llm.chat([*ask("x"), {"role": "assistant", "content": "ab"}, *ask("y")], temperature=0.0, max_tokens=2)
        # BOS <u> x <e> <u> a was read; b <e> <u> y <e> <u> is new
        assert (second.usage.cached_tokens, second.usage.prompt_tokens) == (6, 12)
        assert second.ids == [a, b]


def test_an_answer_cut_short_goes_on_as_if_it_were_whole(load):
    llm = load()
    options = {"temperature": 0.0, "ignore_eos": True, "logit_bias": dict.fromkeys(range(94, 256), -np.inf)}
    whole = llm.chat(ask("a token of the code"), max_tokens=12, **options)
    for count in (1, 5, 11):
        part = llm.chat(ask("a token of the code"), max_tokens=count, **options)
        rest = llm.chat(
            [*ask("a token of the code"), {"role": "assistant", "content": part.text}], max_tokens=12 - count, **options
        )
        assert part.text + rest.text == whole.text and rest.text
        assert rest.usage.cached_tokens >= part.usage.prompt_tokens


def test_an_answer_cut_within_a_word_goes_on_with_that_word(tmp_path):
    # "ab" is a token that the answer's "a" may become
    a, b, ab, user, end = range(markov.FIRST, markov.FIRST + 5)
    template = "{% for m in messages %}<u>{{ m.content }}<e>{% endfor %}<u>"
    path = markov.write(
        tmp_path / "m.gguf",
        ["a", "b", "ab", "<u>", "<e>"],
        markov.chain((user, ab), (ab, end), (a, end)),
        template=template,
        control=["<u>", "<e>"],
    )
    with LLM(path, backend="reference") as llm:
        answer = llm.chat([*ask("x"), {"role": "assistant", "content": "a"}], temperature=0.0, max_tokens=1)
        assert (answer.text, answer.ids) == ("b", [ab])


def test_model_without_template(load):
    with pytest.raises(RequestError, match="no chat template"):
        load("gemma3").chat(ask("hello"))


def test_chat_streams_what_it_answers(llm):
    whole = llm.chat(ask("hello"), max_tokens=6, **GREEDY)
    chunks = list(llm.chat_stream(ask("hello"), max_tokens=6, **GREEDY))
    assert [chunk.id for chunk in chunks] == whole.ids and "".join(chunk.text for chunk in chunks) == whole.text


def test_an_option_that_only_texts_have_is_none_of_chats(llm):
    with pytest.raises(RequestError, match="unknown option token_healing; there are temperature"):
        llm.chat(ask("x"), token_healing=False)


def test_chat_too_long_for_the_context(llm):
    with pytest.raises(ContextFullError, match="n_ctx 256 leaves room for 255"):
        llm.chat(ask("x" * 300))


# threads and closing


def test_threads_generate_at_once_as_alone(load):
    llm = load(n_threads=2)
    prompts = [PROMPT[n:] for n in range(6)]
    alone = [llm.generate(prompt, max_tokens=10, seed=1, temperature=0.7).ids for prompt in prompts]
    together = {}

    def work(n):
        together[n] = [llm.generate(prompts[n], max_tokens=10, seed=1, temperature=0.7).ids for _ in range(3)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert together == {n: [alone[n]] * 3 for n in range(6)}


def test_closed_model_refuses_everything(load):
    with load() as llm:
        chunks = llm.stream(PROMPT)
        next(chunks)
    for call in (
        lambda: next(chunks),
        lambda: llm.tokenize("a"),
        lambda: llm.detokenize([1]),
        lambda: llm.logits([1]),
        lambda: llm.generate("a"),
        lambda: llm.stream([1]),
        lambda: llm.chat(ask("a")),
    ):
        with pytest.raises(RequestError, match="the model is closed"):
            call()
    llm.close()


@pytest.mark.parametrize("take", [copy.copy, copy.deepcopy, pickle.dumps])
def test_there_is_no_copy(llm, take):
    with pytest.raises(TypeError, match="an LLM cannot be copied or pickled: each process loads the model itself"):
        take(llm)


def test_loading_and_closing_leaks_nothing(load):
    process, before, held = psutil.Process(), 0, (0, 0)

    def threads_and_files():
        for thread in threading.enumerate():
            if thread.name == "edgeinfer-pages":  # ends soon after `close`, which does not wait for it
                thread.join()
        return process.num_threads(), process.num_fds()

    for round in range(25):
        if round == 5:
            before, held = process.memory_info().rss, threads_and_files()
        with load() as llm:
            llm.generate(PROMPT, max_tokens=2, **GREEDY)
    assert process.memory_info().rss - before < 30e6
    assert threads_and_files() == held


def test_the_models_context_is_the_upper_bound(paths):
    with (
        pytest.warns(UserWarning, match="n_ctx 257 is lowered to the 256 tokens"),
        LLM(paths["llama"], n_ctx=257) as llm,
    ):
        assert llm.n_ctx == 256


def test_a_system_without_threads_is_enough_for_one(paths, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    with LLM(paths["llama"], n_threads=1) as llm:
        assert llm.generate("a", max_tokens=1, ignore_eos=True).ids
    with pytest.raises(BackendError, match="no more than 1 of 2 threads"):
        LLM(paths["llama"], n_threads=2)


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_no_noise_at_the_interpreters_exit(paths, backend):
    with LLM(paths["llama"], backend=backend):
        pass  # its kernels are built, if they were not
    arguments = f"{str(paths['llama'])!r}, backend={backend!r}"
    code = f"import edgeinfer; m = edgeinfer.LLM({arguments}); s = m.stream('a'); next(s)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_file_cut_short_while_in_use_ends_in_an_error(paths, tmp_path):
    """A page behind the end would kill the process."""
    path = tmp_path / "m.gguf"
    path.write_bytes(paths["llama"].read_bytes())
    with LLM(path, backend="reference") as llm:
        chunks = llm.stream(PROMPT, max_tokens=5, **GREEDY)
        next(chunks)
        os.truncate(path, 1000)
        for call in (
            lambda: next(chunks),
            lambda: llm.generate("a"),
            lambda: llm.chat(ask("a")),
            lambda: llm.logits([1]),
            lambda: llm.tokenize("a"),
        ):
            with pytest.raises(FormatError, match=r"m\.gguf: the file was cut short while it was in use"):
                call()


@pytest.mark.skipif(not guard.KERNELS, reason="not known how on this system")
def test_a_file_cut_short_within_a_step_ends_in_an_error(paths, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(paths["llama"].read_bytes())
    code = f"""
import edgeinfer, os
from edgeinfer.cpu import CpuBackend
llm = edgeinfer.LLM({str(path)!r}, n_threads=2)
run = CpuBackend._run
def cut_short(self, *arguments):
    os.truncate({str(path)!r}, 0)
    run(self, *arguments)
CpuBackend._run = cut_short
for call in (lambda: llm.generate("a"), lambda: llm.embed(["a"])):
    try: call()
    except edgeinfer.errors.FormatError as error: print(error)
llm.close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    said = f"{path}: the file was cut short while it was in use: load it again\n"
    assert (done.returncode, done.stdout) == (0, 2 * said)


def test_file_may_be_removed_after_closing(paths, tmp_path):
    path = tmp_path / "m.gguf"
    path.write_bytes(paths["llama"].read_bytes())
    with LLM(path, backend="reference") as llm:
        llm.generate("a", max_tokens=1)
    path.unlink()
    with pytest.raises(FormatError):
        gguf.open(path)


def test_any_shard_of_a_split_model_loads(paths, tmp_path, monkeypatch):
    monkeypatch.setattr("gguf.GGUFWriter", functools.partial(gguf_package.GGUFWriter, split_max_tensors=8))
    tiny.write(tmp_path / "m.gguf", "llama")
    shards = sorted(tmp_path.glob("m-*.gguf"))
    assert len(shards) == 3
    with LLM(paths["llama"], backend="reference") as whole:
        wanted = whole.logits(PROMPT)
    for shard in shards:
        with LLM(shard, backend="reference") as llm:
            assert np.array_equal(llm.logits(PROMPT), wanted)


@pytest.mark.parametrize("alignment", [1, 2, 64])
def test_weights_may_stand_anywhere(load, paths, tmp_path, monkeypatch, alignment):
    class Writer(gguf_package.GGUFWriter):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.add_custom_alignment(alignment)

    wanted = load().logits(PROMPT)
    monkeypatch.setattr("gguf.GGUFWriter", Writer)
    paths[f"at {alignment}"] = tiny.write(tmp_path / "m.gguf", "llama")
    assert np.array_equal(load(f"at {alignment}").logits(PROMPT), wanted)


def test_overridden_metadata(paths):
    with LLM(paths["llama"], backend="reference", override={"llama.context_length": 32}) as llm:
        assert llm.n_ctx == llm.metadata["llama.context_length"] == 32
    with pytest.raises(RequestError, match="override of 'llama.context_length' is 'x', int wanted"):
        LLM(paths["llama"], override={"llama.context_length": "x"})


def test_sampling_as_the_file_says_unless_asked_otherwise(paths):
    with LLM(paths["llama"], backend="reference", override={"general.sampling.temp": 0.0}) as llm:
        assert llm.sampling == {"temperature": 0.0}
        texts = {llm.generate("the", max_tokens=8, ignore_eos=True).text for _ in range(4)}
        others = {llm.generate("the", max_tokens=8, ignore_eos=True, temperature=2.0).text for _ in range(4)}
        assert len(texts) == 1 < len(others)
