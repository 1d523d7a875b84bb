"""The conversation on a terminal, played by a pseudo-terminal."""

import contextlib
import os
import re
import select
import signal
import time

import pytest

from tests import markov
from tests.cli.test_run import FOREVER, PLAIN, TOKENS, A

pty = pytest.importorskip("pty")
ANSI = re.compile(r"\x1b\[[?0-9;]*[a-zA-Z]")


class Terminal:
    """`edgeinfer run ARGUMENTS` on a terminal: type into it, wait for what it shows."""

    def __init__(self, edgeinfer, *arguments, stdout=None):
        self.master, slave = pty.openpty()
        arguments = ["run", "--backend", "reference", "--temp", "0", *arguments]
        self.process = edgeinfer.start(*arguments, stdin=slave, stdout=stdout or slave, stderr=slave)
        os.close(slave)
        self.shown = ""

    def type(self, text):
        os.write(self.master, text.encode())

    def wait(self, text, seconds=60):
        """What is shown up to `text`, which must come within that time."""
        end = time.monotonic() + seconds
        while text not in self.shown:
            ready, _, _ = select.select([self.master], [], [], max(0, end - time.monotonic()))
            assert ready, f"no {text!r} in {self.shown!r}"
            self.shown += ANSI.sub("", os.read(self.master, 4096).decode())
        before, _, self.shown = self.shown.partition(text)
        return before

    def end(self, again=None):
        """The exit code; what is left on the terminal is read and dropped.  `again` is a signal to repeat until it
        is heard: one that comes between a prompt and the wait for a line is only seen with the next."""
        start, sent = time.monotonic(), 0
        try:
            while self.process.poll() is None:
                waited = time.monotonic() - start
                assert waited < 60, "does not end"
                if again and waited >= 6 * sent:
                    self.process.send_signal(again)
                    sent += 1
                if select.select([self.master], [], [], 1)[0]:
                    with contextlib.suppress(OSError):  # Linux: the other side is closed
                        os.read(self.master, 4096)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.master)
        return self.process.returncode


@pytest.fixture
def model(tmp_path):
    """Answers "o" with " alpha" for ever, everything else with " beta"."""

    def table(size):
        logits = FOREVER(size)
        logits[markov.BYTES + ord("x"), A + 1] = logits[A + 1, markov.EOS] = markov.STRONG
        return logits

    return markov.write(tmp_path / "m.gguf", TOKENS, table, template=PLAIN, context=100_000)


def test_answers_come_line_by_line_until_exit(edgeinfer, model):
    terminal = Terminal(edgeinfer, model)
    terminal.wait("> ")
    for _ in range(2):
        terminal.type("x\n")
        terminal.wait(" beta\r\n> ")
    terminal.type("\n")
    assert "beta" not in terminal.wait("> ")
    terminal.type("/help\n")
    assert "goes to the model" in terminal.wait("\r\n> ")
    terminal.type("/exit\n")
    assert terminal.end() == 0


def test_answers_may_go_into_a_file(edgeinfer, model, tmp_path):
    with open(tmp_path / "answers", "w") as answers:
        terminal = Terminal(edgeinfer, model, stdout=answers)
    terminal.wait("> ")
    for line in ("\n", "x\n", "x\n"):
        terminal.type(line)
        terminal.wait("> ")
    terminal.type("\x04")
    assert terminal.end() == 0 and (tmp_path / "answers").read_text() == " beta\n beta\n"


def test_ctrl_d_ends(edgeinfer, model):
    terminal = Terminal(edgeinfer, model)
    terminal.wait("> ")
    terminal.type("\x04")
    assert terminal.end() == 0


def test_ctrl_c_ends_an_answer_and_at_the_prompt_the_conversation(edgeinfer, model):
    terminal = Terminal(edgeinfer, model)
    terminal.wait("> ")
    terminal.type("o\n")
    terminal.wait(" alpha alpha alpha")
    terminal.process.send_signal(signal.SIGINT)
    terminal.wait("\r\n> ")
    terminal.type("x\n")
    terminal.wait(" beta\r\n> ")
    assert terminal.end(again=signal.SIGINT) == 130


def test_earlier_turns_are_not_read_again(edgeinfer, tmp_path):
    template = "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}"
    tokens, end = ["<|end|>", "beta"], markov.FIRST
    path = markov.write(
        tmp_path / "m.gguf", tokens, markov.sentence(end, end + 1), template=template, control=["<|end|>"]
    )
    terminal = Terminal(edgeinfer, path, "--stats")
    terminal.wait("> ")
    terminal.type("xx\n")
    terminal.wait("beta\r\nprompt 4 tokens, ")  # BOS x x <|end|>
    terminal.type("y\n")
    terminal.wait("beta\r\nprompt 8 tokens (5 cached), ")  # those, beta <|end|> y <|end|>
    terminal.type("/exit\n")
    assert terminal.end() == 0


def test_pasted_lines_are_one_question(edgeinfer, model):
    pytest.importorskip("readline")
    terminal = Terminal(edgeinfer, model, "--stats")
    terminal.wait("> ")
    terminal.type("\x1b[200~ab\ncdx\x1b[201~\n")
    terminal.wait("prompt 7 tokens")  # BOS a b newline c d x
    terminal.type("/exit\n")
    assert terminal.end() == 0


def test_a_full_context_forgets_the_oldest_exchange(edgeinfer, model):
    terminal = Terminal(edgeinfer, model, "--ctx", "32")
    terminal.wait("> ")
    for _ in range(3):
        terminal.type("abcdefghix\n")
        shown = terminal.wait(" beta\r\n> ")
    assert "oldest question and its answer are forgotten" in shown
    terminal.type("abcdefghijklmnopqrstuvwx\n")
    assert "the oldest 2 questions and their answers are forgotten" in terminal.wait(" beta\r\n> ")
    terminal.type("/exit\n")
    assert terminal.end() == 0


def test_a_question_longer_than_the_context_costs_no_exchange(edgeinfer, model):
    terminal = Terminal(edgeinfer, model, "--ctx", "32", "--stats")
    terminal.wait("> ")
    terminal.type("ax\n")
    terminal.wait("prompt 3 tokens")  # BOS a x
    terminal.wait("\r\n> ")
    terminal.type("a" * 40 + "x\n")
    assert "forgotten" not in terminal.wait("\r\n> ")
    terminal.type("bx\n")
    terminal.wait("(3 cached)")  # those; beta and b x are read
    terminal.wait("\r\n> ")
    terminal.type("/exit\n")
    assert terminal.end() == 0
