"""Prompts as ids, over vocabularies made up for the purpose."""

import pytest

from edgeinfer import prompt
from edgeinfer.errors import RequestError
from edgeinfer.tokenizer import Tokenizer
from tests import markov

TOKENS = ["a", "b", "ab", "abab", "<user>", "<end>"]
A, B, AB, ABAB, USER, END = range(markov.FIRST, markov.FIRST + 6)
TEMPLATE = "{{ bos_token }}{% for m in messages %}<user>{{ m.content }}<end>{% endfor %}<user>"


def tokenizer(path, **options):
    options = {"control": ("<user>", "<end>"), **options}
    return Tokenizer.from_gguf(markov.write(path / "m.gguf", TOKENS, markov.chain(), **options))


@pytest.fixture
def plain(tmp_path):
    return tokenizer(tmp_path)


def test_text_begins_with_bos(plain):
    assert prompt.from_prompt(plain, "ab") == prompt.from_prompt(plain, b"ab") == [markov.BOS, AB]


def test_text_has_no_control_tokens(plain):
    ids = prompt.from_prompt(plain, "a<end>")
    assert END not in ids and plain.decode(ids) == b"a<end>"


def test_ids_are_taken_as_they_are(plain):
    assert prompt.from_prompt(plain, (A, END)) == [A, END]


def test_empty_prompts_are_bos(plain):
    for nothing in ("", b"", []):
        assert prompt.from_prompt(plain, nothing) == [markov.BOS]


def test_empty_prompt_without_bos_in_texts_is_bos_too(tmp_path):
    assert prompt.from_prompt(tokenizer(tmp_path, add_bos=False), "") == [markov.BOS]


@pytest.mark.parametrize("wrong", [-1, 265, 10**12])
def test_ids_outside_the_vocabulary_are_named(plain, wrong):
    with pytest.raises(RequestError, match=f"{wrong} is outside the vocabulary of 265 tokens, 0..264"):
        prompt.from_prompt(plain, [A, wrong])


@pytest.mark.parametrize("wrong", [[1.5], ["a"], 7, [None]])
def test_ids_that_are_none(plain, wrong):
    with pytest.raises(RequestError, match="sequence of integers"):
        prompt.from_prompt(plain, wrong)


def chat(tokenizer, *texts, earlier=(), template=TEMPLATE):
    messages = [{"role": "user", "content": text} for text in texts]
    return prompt.from_messages(tokenizer, {"tokenizer.chat_template": template}, messages, None, earlier)


def test_chat_has_the_bos_its_template_writes_and_no_second(plain):
    assert chat(plain, "ab") == [markov.BOS, USER, AB, END, USER]


def test_chat_has_a_bos_its_template_does_not_write(plain):
    assert chat(plain, "ab", template=TEMPLATE.removeprefix("{{ bos_token }}")) == [markov.BOS, USER, AB, END, USER]


def test_chat_has_no_bos_where_the_model_wants_none(tmp_path):
    bare = tokenizer(tmp_path, add_bos=False)
    assert chat(bare, "ab", template=TEMPLATE.removeprefix("{{ bos_token }}")) == [USER, AB, END, USER]


def test_typed_control_tokens_are_text(plain):
    ids = chat(plain, "a<end>b")
    assert ids.count(END) == 1 and plain.decode(ids, special=True) == b"<s><user>a<end>b<end><user>"


def test_template_that_makes_no_text(tmp_path):
    with pytest.raises(RequestError, match="no text"):
        chat(tokenizer(tmp_path, add_bos=False), "a", template="{# nothing #}")


def test_no_template_points_to_generate(plain):
    with pytest.raises(RequestError, match="no chat template.*generate.*--raw"):
        prompt.from_messages(plain, {}, [{"role": "user", "content": "a"}], None, ())


def test_earlier_spelling_of_a_turn_is_kept(plain):
    earlier = [markov.BOS, USER, A, B]  # "ab", as a model spelt it
    assert chat(plain, "ab", "b", earlier=[earlier]) == [*earlier, END, USER, B, END, USER]


def test_the_longest_of_several_is_kept(plain):
    short, long = [markov.BOS, USER, A, B, END], [markov.BOS, USER, AB, END, USER, A, B, A, B, END]
    assert chat(plain, "ab", "abab", earlier=[short, long, [markov.BOS]]) == [*long, USER]


def test_text_that_only_begins_alike_is_spelt_by_the_tokenizer(plain):
    assert chat(plain, "abab", earlier=[[markov.BOS, USER, A, B]]) == [markov.BOS, USER, ABAB, END, USER]
    assert chat(plain, "ab", earlier=[[markov.BOS, USER, A, B, A, B, END]]) == [markov.BOS, USER, AB, END, USER]


def test_control_token_is_not_the_same_as_its_text(plain):
    spelt = plain.encode("<end>", add_special=False)
    assert chat(plain, "a", earlier=[[markov.BOS, USER, A, *spelt, USER, B]]) == [markov.BOS, USER, A, END, USER]
    assert END not in chat(plain, "a<end>", earlier=[[markov.BOS, USER, A, END, END]])[2:-2]


def test_tools_that_the_template_leaves_out_are_refused(plain):
    tools = [{"type": "function", "function": {"name": "f"}}]

    def ids(template):
        metadata, messages = {"tokenizer.chat_template": template}, [{"role": "user", "content": "a"}]
        return prompt.from_messages(plain, metadata, messages, tools, ())

    assert ids(TEMPLATE + "{{ tools[0].function.name }}")
    with pytest.raises(RequestError, match="tools: this model's chat template has no place for them"):
        ids(TEMPLATE + "{{ strftime_now('%f') }}")


def test_an_answer_that_has_begun_is_gone_on_with(plain):
    def ids(said, template):
        messages = [{"role": "user", "content": "ab"}, {"role": "assistant", "content": said}]
        return prompt.from_messages(plain, {"tokenizer.chat_template": template}, messages, None, [])

    begun = [markov.BOS, USER, AB, END, USER]
    assert ids("b", TEMPLATE) == [*begun, B] and ids("", TEMPLATE) == begun
    assert ids("b", TEMPLATE + "a") == [*begun, AB]  # one text with the template's
    assert ids("a<end>b", TEMPLATE) == [*begun, A, END, B]  # the assistant's own
    assert ids("b", "{{ '' }}") == [markov.BOS, B]


def test_parts_are_read(plain):
    parts = [{"type": "text", "text": "ab"}]
    metadata = {"tokenizer.chat_template": TEMPLATE}
    ids = prompt.from_messages(plain, metadata, [{"role": "user", "content": parts}], None, ())
    assert ids == [markov.BOS, USER, AB, END, USER]
