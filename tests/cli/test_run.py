"""`edgeinfer run` with a prompt: what is a model and what a prompt, what goes where, and how it ends."""

import json
import resource
import signal

import pytest

from tests import markov
from tests.models import decoders, encoders

A, B, C = range(markov.FIRST, markov.FIRST + 3)
TOKENS = [" alpha", " beta", " gamma"]
PLAIN = "{% for message in messages %}{{ message.content }}{% endfor %}"
AFTER_O = markov.sentence(markov.BYTES + ord("o"), A, B, C)
REFERENCE = ("--backend", "reference")
FOREVER = markov.chain((markov.BYTES + ord("o"), A), (A, A))


@pytest.fixture
def model(tmp_path):
    """Answers what ends with an o with " alpha beta gamma"."""
    return markov.write(tmp_path / "m.gguf", TOKENS, AFTER_O, template=PLAIN)


@pytest.fixture
def run(edgeinfer):
    """`edgeinfer run` on the reference backend, always taking the likeliest token."""

    def call(*arguments, input=""):
        return edgeinfer("run", *REFERENCE, "--temp", "0", *arguments, input=input)

    return call


@pytest.mark.parametrize(
    "arguments", [["{m}", "please go"], ["-m", "{m}", "go"], ["{m}", "-p", "go"], ["-m", "{m}", "-p", "go"]]
)
def test_an_answer_goes_to_stdout_and_nothing_else(run, model, arguments):
    done = run(*(argument.format(m=model) for argument in arguments))
    assert (done.returncode, done.stdout, done.stderr) == (0, " alpha beta gamma\n", "")


def test_piped_input_is_the_prompt(run, model):
    assert run(model, input="go\n").stdout == " alpha beta gamma\n"


def test_piped_input_follows_the_prompt_after_an_empty_line(run, tmp_path):
    echo = markov.write(tmp_path / "m.gguf", TOKENS, AFTER_O, template="{{ raise_exception(messages[0].content) }}")
    done = run(echo, "Say it:", input="all of\nthis\n")
    assert done.returncode == 2 and "Say it:" in done.stderr
    answer = run(markov.write(tmp_path / "n.gguf", TOKENS, AFTER_O, template=PLAIN), "x", input="\ngo\n").stdout
    assert answer == " alpha beta gamma\n"


def test_an_empty_prompt_is_a_mistake(edgeinfer, model):
    for arguments in ([], ["-p", ""], ["-p", " \n"]):
        error = edgeinfer.fails(2, "run", "-m", model, "--backend", "reference", *arguments)
        assert "nothing to answer: the prompt is empty" in error


def test_a_model_without_template_says_so_and_continues(run, tmp_path):
    done = run(markov.write(tmp_path / "m.gguf", TOKENS, AFTER_O), "go")
    assert (done.returncode, done.stdout) == (0, " alpha beta gamma\n")
    assert "no chat template" in done.stderr and done.stderr.count("\n") == 1


def test_a_model_that_answers_texts_needs_no_template(edgeinfer, run, tmp_path):
    path = decoders.ANSWERS["t5"].write(tmp_path / "m.gguf")
    done = run(path, "the dog", "-n", "3", "--stats")
    assert (done.returncode, done.stderr.count("\n")) == (0, 1) and "answer 3 tokens" in done.stderr
    answer = json.loads(run(path, "the dog", "--json").stdout)  # which has an end, or takes the context
    assert done.stdout.strip()[:1] == answer["text"].strip()[:1]
    assert answer["finish_reason"] == "stop" or len(answer["ids"]) == 63
    assert run(path, "the dog", "--stats").stderr.count("context of 64 tokens is full") == (len(answer["ids"]) == 63)
    assert "--system needs a chat template" in edgeinfer.fails(2, "run", path, "hi", "--system", "x", *REFERENCE)


@pytest.mark.parametrize("command", [("perplexity", "{m}", "{m}", "--ctx", "64", *REFERENCE), ("bench", "{m}")])
def test_what_goes_on_from_texts_is_refused_for_it(edgeinfer, tmp_path, command):
    path = decoders.ANSWERS["t5"].write(tmp_path / "m.gguf")
    assert "this t5 model answers texts" in edgeinfer.fails(2, *(word.format(m=path) for word in command))


@pytest.mark.parametrize("arguments", [(), ("--raw",), ("--system", "x")])
def test_a_model_that_does_not_generate_says_nothing_else(edgeinfer, tmp_path, arguments):
    path = encoders.CASES["bert"].write(tmp_path / "m.gguf")
    said = edgeinfer.fails(2, "run", path, "hi", "--backend", "reference", *arguments)
    assert "is made to embed texts" in said


def test_raw_leaves_the_template_out(run, tmp_path):
    path = markov.write(tmp_path / "m.gguf", TOKENS, AFTER_O, template="{{ messages[0].content }}x")
    assert run(path, "go").stdout != " alpha beta gamma\n"
    done = run(path, "go", "--raw")
    assert (done.stdout, done.stderr) == (" alpha beta gamma\n", "")


def test_the_system_message_comes_first(run, tmp_path):
    template = "{{ messages[0].role }} {{ messages[0].content }}"
    path = markov.write(tmp_path / "m.gguf", TOKENS, AFTER_O, template=template)
    assert run(path, "x", "--system", "go").stdout == " alpha beta gamma\n" != run(path, "x").stdout


def test_limits_and_stop_texts(run, model):
    assert run(model, "go", "-n", "2").stdout == " alpha beta\n"
    assert run(model, "go", "--stop", "zzz", "--stop", "a ga").stdout == " alpha bet\n"


def test_a_seed_repeats_and_none_varies(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", TOKENS, markov.chain(), template=PLAIN)
    texts = [
        json.loads(edgeinfer("run", path, "go", "-n", "8", "--backend", "reference", "--json", *seed).stdout)["ids"]
        for seed in (["--seed", "5"], ["--seed", "5"], ["--seed", "6"], [], [])
    ]
    assert texts[0] == texts[1] and len({tuple(ids) for ids in texts}) == 4


def test_json_has_all_about_the_answer(run, model):
    done = run(model, "go", "--json")
    answer = json.loads(done.stdout)
    assert (answer["model"], answer["text"], answer["ids"]) == ("m.gguf", " alpha beta gamma", [A, B, C])
    assert answer["finish_reason"] == "stop" and done.stderr == ""
    assert answer["usage"]["prompt_tokens"] == 3 and answer["usage"]["completion_tokens"] == 3
    assert answer["timings"]["first_token_s"] > 0


def test_json_keeps_letters_that_the_output_has_no_code_for(edgeinfer, run, model):
    edgeinfer.environment["PYTHONIOENCODING"] = "ascii"
    assert json.loads(run(model.rename(model.with_name("größe.gguf")), "go", "--json").stdout)["model"] == "größe.gguf"


def test_statistics_go_to_stderr(run, model):
    done = run(model, "go", "--stats")
    assert done.stdout == " alpha beta gamma\n"
    assert "prompt 3 tokens" in done.stderr and "answer 3 tokens" in done.stderr and "ended by stop" in done.stderr


def test_statistics_name_what_the_model_says_of_sampling(run, model):
    sampling = ["--override", "general.sampling.temp=0.25", "--override", "general.sampling.top_k=3"]
    assert run(model, "go", "--stats", *sampling).stderr.endswith("; from the model: top_k 3\n")  # --temp is given
    assert "from the model" not in run(model, "go", "--stats").stderr


def test_a_word_that_is_neither_model_nor_prompt_is_the_users_mistake(edgeinfer):
    assert "did you mean 'smollm2'?; if it is what you want to ask: -p smolm2" in edgeinfer.fails(2, "run", "smolm2")
    assert "neither a file nor a model" in edgeinfer.fails(2, "run", "-m", "nobody", "-p", "go")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--raw", "--system", "x"], "--system"),
        (["--temp", "-1"], "temperature"),
        (["--top-p", "1.5"], "top_p"),
        (["-n", "-5"], "max_tokens"),
        (["--threads", "0"], "n_threads"),
        (["--ctx", "0"], "n_ctx"),
        (["--kv-type", "q9"], "q9"),
    ],
)
def test_impossible_settings_are_the_users_mistake(edgeinfer, model, arguments, words):
    if arguments[0] != "--kv-type":  # the reference has only one
        arguments = [*arguments, "--backend", "reference"]
    assert words in edgeinfer.fails(2, "run", model, "go", *arguments)


@pytest.mark.parametrize("words", ["--temp -1", "--temp nan", "-n -1", "--threads 0", "--ctx 0", "--kv-type q9"])
def test_impossible_settings_are_refused_before_a_model_is_loaded_or_fetched(edgeinfer, tmp_path, words):
    (tmp_path / "broken.gguf").write_bytes(b"GGUF")
    edgeinfer.environment["PIP_NO_INDEX"] = "1"
    for model in (tmp_path / "broken.gguf", "smollm2"):
        error = edgeinfer.fails(2, "run", "-m", model, "-p", "go", *words.split())
        assert any(f"is {quote}{words.split()[1]}" in error for quote in ("", "'")), error


def test_a_prompt_longer_than_the_context_is_refused_with_both_numbers(edgeinfer, model):
    error = edgeinfer.fails(2, "run", model, "o" * 100, "--ctx", "16", "--backend", "reference")
    assert "101" in error and "16" in error


def test_an_answer_the_context_cuts_short_says_so(run, tmp_path):
    path = markov.write(tmp_path / "m.gguf", TOKENS, FOREVER, template=PLAIN)
    done = run(path, "go", "--ctx", "16")
    assert done.stdout == " alpha" * 13 + "\n"
    assert done.stderr == "edgeinfer: the answer ends here: the context of 16 tokens is full\n"
    assert run(path, "go", "--ctx", "16", "-n", "12").stderr == ""


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.gguf", None, "No such file"),
        ("lfs.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 98362432\n", "git-lfs"),
        ("text.gguf", b"Once upon a time\n" * 99, "GGUF"),
        ("empty.gguf", b"", "empty"),
        ("half.gguf", b"GGUF\x03\x00\x00\x00", "header"),
        (".", None, "directory"),
    ],
)
def test_a_bad_file_is_one_line_in_less_than_a_second(edgeinfer, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert words in edgeinfer.fails(1, "run", tmp_path / name, "go")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1


def test_ctrl_c_ends_an_answer_with_130(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", TOKENS, FOREVER, template=PLAIN, context=100_000)
    with edgeinfer.start("run", path, "go", "--backend", "reference", "--temp", "0") as process:
        assert process.stdout.read(12) == " alpha alpha"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "") and rest.endswith("\n")


def test_a_reader_that_leaves_ends_it_quietly(edgeinfer, tmp_path):
    path = markov.write(tmp_path / "m.gguf", TOKENS, FOREVER, template=PLAIN, context=100_000)
    with edgeinfer.start("run", path, "go", "--backend", "reference", "--temp", "0") as process:
        assert process.stdout.read(6) == " alpha"
        process.stdout.close()
        assert (process.stderr.read(), process.wait(20)) == ("", 141)
