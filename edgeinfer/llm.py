"""LLM: a loaded model, the interface for Python programs."""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, NoReturn

import numpy as np

from edgeinfer import embedding, files, machine, memory, tune
from edgeinfer import prompt as prompts
from edgeinfer.backend import Backend
from edgeinfer.chat import begun
from edgeinfer.embedding import Ranked, Text
from edgeinfer.engine import Engine
from edgeinfer.errors import BackendError, ContextFullError, RequestError
from edgeinfer.generate import Chunk, Completion, Request, collect, stream
from edgeinfer.healing import back_up
from edgeinfer.models import catalog
from edgeinfer.options import Stops, check_options, checked
from edgeinfer.plan import Plan, stated_pooling, trace
from edgeinfer.sampling_params import check_bias, stated
from edgeinfer.tokenizer import Tokenizer
from edgeinfer.verbs.rows import POOLINGS
from edgeinfer.weights import Weights

SEQUENCES = 4  # requests that run at once, and conversations whose KV is kept

Prompt = str | bytes | Sequence[int]


class LLM:
    """A model ready to run.  A context manager; all methods may be called from several threads at once.

    Requests of several threads take turns step by step; up to 4 run at once, more wait.  What a finished request read
    and wrote stays in memory: a request that begins with the same tokens reads only the rest.  After `close` every
    method raises RequestError.

    `sampling` has what the file says of sampling: the defaults of the fields of SamplingParams named there.
    """

    def __init__(
        self,
        model: str | bytes | os.PathLike[str],
        n_ctx: int | None = None,
        n_threads: int | None = None,
        kv_type: str = "f16",
        backend: str = "cpu",
        n_batch: int = 512,
        override: Mapping[str, object] | None = None,
        deterministic: bool = False,
        weights: str = "mmap",
    ) -> None:
        """Load `model`: the path of a GGUF file or Hugging Face folder, or a name of the catalog, which is then pulled.

        n_ctx: tokens that a prompt and its answer may take together, or each of them in models that read a text and
        answer it; more than the model states is lowered to that,
        with a warning.  None is what it states, or where the KV of that takes over a quarter of the memory
        available, the largest multiple of 256 whose KV does not.  n_threads: None is the physical cores this process
        may use, or what `edgeinfer tune` has found best for this model; a step of one token leaves some of them out
        while other programs take the cores.  kv_type: f32, f16 or q8_0, of the KV (always f32 in the reference
        backend).  backend: "cpu", or "reference" for plain numpy.  n_batch: tokens of a prompt that are read in one
        step.  override: metadata that counts instead of what the file says, by GGUF's keys.  deterministic: logits of a
        token depend on the tokens before it alone, not by one bit on how these were read in steps, nor on other
        requests or threads; a third slower.  weights: "mmap", read from the file's pages; "huge", copied into huge
        pages, which are read faster but not shared between processes; "auto", copied where a quarter of the memory
        available holds them.  The reference backend does without.

        FormatError, UnsupportedError: the file.  RequestError: an argument.  BackendError: not enough memory.
        """
        check_options(n_ctx, n_threads, kv_type, backend, n_batch, weights)
        self.weights = Weights(weights if backend == "cpu" else "mmap")
        self.kv_type = kv_type if backend == "cpu" else "f32"
        self.path = os.fspath(catalog.resolve(model))
        self._file = files.open(self.path, override)
        if self._file.size < machine.available_memory() // 2:  # while the rest of the load goes on
            with suppress(RuntimeError):  # the system has no thread to give
                threading.Thread(target=self._file.populate, name="edgeinfer-pages", daemon=True).start()
        plan = trace(self._file)
        self._threads = tune.Threads(n_threads, n_threads) if n_threads else tune.kept(plan)
        self.n_threads = max(self._threads.decode, self._threads.prefill)
        self.n_ctx = memory.context(plan, n_ctx, self.kv_type, n_batch)
        self.n_batch = min(int(n_batch), self.n_ctx)
        self.tokenizer = Tokenizer.from_gguf(self._file)
        self.sampling = stated(self._file.metadata)
        self._backend_name, self._deterministic = backend, deterministic
        self._engines: dict[str, Engine] = {}  # by the plan's pooling: to generate, to embed, to rank
        self._starting = threading.Lock()
        whole = self.n_ctx == plan.config.context
        self._engine = self._start(plan if whole else trace(self._file, self.n_ctx))
        self.n_vocab = self._engine.n_vocab

    def _start(self, plan: Plan) -> Engine:
        self._engines[plan.pooling] = engine = Engine(self._backend(plan), self._file.check)
        return engine

    def _backend(self, plan: Plan) -> Backend:
        """Where rows are pooled a text is read in one step, so that this may be as long as the context."""
        n_batch, sequences = (self.n_ctx, embedding.TEXTS) if plan.pooling else (self.n_batch, SEQUENCES)
        memory.check(plan, self.kv_type, self.n_ctx, n_batch)
        plan = self.weights.place(plan)
        if self._backend_name == "reference":
            from edgeinfer.reference import ReferenceBackend

            return ReferenceBackend(plan, self.n_ctx, n_batch, sequences)
        from edgeinfer.cpu import CpuBackend

        cpu = CpuBackend(plan, self.n_ctx, self.n_threads, self.kv_type, n_batch, sequences, self._deterministic)
        cpu.use(self._threads.decode, self._threads.prefill)
        return cpu

    def _engine_that_pools(self, pooling: str) -> Engine:
        """Made at first use, and kept."""
        with self._starting:
            self._engine.check_open()
            return self._engines.get(pooling) or self._start(trace(self._file, self.n_ctx, pooling))

    def check_continues(self) -> None:
        """RequestError where this model does not go on from texts but embeds, ranks or answers them."""
        self._engine.plan.check_continues()

    def check_generates(self) -> None:
        """RequestError where this model does not generate text but embeds or ranks it."""
        self._engine.plan.check_generates()

    @property
    def answers(self) -> bool:
        """Whether this model reads a text as a whole and answers it, instead of going on from it."""
        return self._engine.plan.reader is not None

    @property
    def metadata(self) -> Mapping[str, object]:
        """What the file says of itself, by GGUF's keys."""
        return self._file.metadata

    def tokenize(self, text: str | bytes, add_special: bool = True, parse_special: bool = False) -> list[int]:
        """Ids of a text.

        add_special: with what the model wants around every text, such as BOS.  parse_special: control tokens that are
        spelt out in the text become those tokens.
        """
        self._engine.check_open()
        return self.tokenizer.encode(text, add_special, parse_special, exact=True)

    def detokenize(self, ids: Sequence[int], special: bool = False) -> bytes:
        """The bytes of ids, which may end amid a character.  Control tokens are left out, or spelt out if `special`."""
        self._engine.check_open()
        return self.tokenizer.decode(prompts.checked(self.tokenizer, ids), special)

    def logits(self, ids: Sequence[int]) -> np.ndarray:
        """Logits after each of the ids, read from an empty context: float32[len(ids), vocab].

        RequestError: ids that are not there, or none, or a model that answers texts.  ContextFullError: more than
        n_ctx.  BackendError: not enough memory for the array.
        """
        self.check_continues()
        ids = prompts.checked(self.tokenizer, ids)
        if not ids:
            raise RequestError("logits of no token ids")
        self._check_fits(ids, self.n_ctx)
        size, available = 4 * len(ids) * self.n_vocab, machine.available_memory()
        if size > available:
            raise BackendError(
                f"logits of {len(ids)} positions x {self.n_vocab} tokens need {memory.megabytes(size)} MB "
                f"and {memory.megabytes(available)} MB are available"
            )
        logits = np.empty((len(ids), self.n_vocab), np.float32)
        with self._engine.sequence(ids, reuse=False) as sequence:
            self._engine.read(sequence, logits)
        return logits

    def generate(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        stop: Stops = (),
        seed: int | None = None,
        ignore_eos: bool = False,
        token_healing: bool = True,
        **sampling: Any,
    ) -> Completion:
        """Go on from a prompt, or answer it where the model is made to (T5); the whole answer.

        prompt: a text, in which control tokens are not looked for, or ids, taken as they are; an empty one is BOS.
        The answer ends where the model ends it, before the first of the strings `stop`, after max_tokens, or where the
        context is full.
        seed: with the same seed and n_threads the same request has the same answer, whatever ran before it; nothing is
        reused of earlier requests then.  None: sampled differently each time.
        ignore_eos: tokens that end a text are like all others.
        token_healing: a text may end within a token; the answer then begins with a token that holds the text's last
        bytes, which are not repeated.
        sampling: the fields of SamplingParams.

        RequestError: an argument.  ContextFullError: a prompt of n_ctx tokens or more, to be answered of more.
        BackendError: logits that are not finite.
        """
        return collect(self.stream(prompt, max_tokens, stop, seed, ignore_eos, token_healing, **sampling))

    def stream(
        self,
        prompt: Prompt,
        max_tokens: int = 256,
        stop: Stops = (),
        seed: int | None = None,
        ignore_eos: bool = False,
        token_healing: bool = True,
        **sampling: Any,
    ) -> Iterator[Chunk]:
        """`generate` by a Chunk for each token as soon as it is known; the last has finish_reason, usage and timings.

        To end early, close the iterator or drop it.  Errors in arguments are raised by the call itself.
        """
        self.check_generates()
        ids, spelt = prompts.from_prompt(self.tokenizer, prompt), isinstance(prompt, (str, bytes))
        settings = self._settings(max_tokens, stop, seed, ignore_eos, sampling)
        return self._stream(ids, spelt, token_healing and spelt, reuse=seed is None, **settings)

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        max_tokens: int = 256,
        stop: Stops = (),
        seed: int | None = None,
        ignore_eos: bool = False,
        **sampling: Any,
    ) -> Completion:
        """The assistant's answer to messages, dicts with `role` and `content`, put into words by the model's template.

        Control tokens are looked for in the template's own text only.  Earlier turns that were read or generated
        before are not read again, whether there is a seed or not: an answer depends on the course of its conversation.

        Where the last message is the assistant's, the answer goes on with it, and its text is what follows; that
        message may end within a word, as the prompt of `generate`.

        RequestError: no template, messages that it refuses, or tools that it leaves out.  All else as `generate`.
        """
        return collect(self.chat_stream(messages, tools, max_tokens, stop, seed, ignore_eos, **sampling))

    def chat_stream(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Any] | None = None,
        max_tokens: int = 256,
        stop: Stops = (),
        seed: int | None = None,
        ignore_eos: bool = False,
        **sampling: Any,
    ) -> Iterator[Chunk]:
        """`chat` by a Chunk for each token as soon as it is known, as `stream`."""
        self.check_generates()
        ids = prompts.from_messages(self.tokenizer, self.metadata, messages, tools, self._engine.idle_ids())
        settings = self._settings(max_tokens, stop, seed, ignore_eos, sampling)
        return self._stream(ids, True, bool(begun(messages)[1]), **settings)

    def _stream(self, ids: list[int], spelt: bool, healed: bool, **settings: Any) -> Iterator[Chunk]:
        """What follows on the ids, or answers them; `spelt`: they are of a text, `healed`: which may end within a
        token."""
        plan = self._engine.plan
        if plan.reader:
            text = prompts.ended(self.tokenizer, ids) if spelt else ids
            self._check_fits(text, self.n_ctx)
            request = Request([plan.start], **settings, text=tuple(text))
        else:
            self._check_fits(ids, self.n_ctx - 1)
            kept = back_up(self.tokenizer.texts, ids) if healed else len(ids)
            request = Request(ids[:kept], **settings, dropped=tuple(ids[kept:]))
        return stream(self._engine, self.tokenizer, request)

    def embed(
        self,
        texts: Sequence[Text],
        pooling: str | None = None,
        normalize: bool = True,
        dimensions: int | None = None,
    ) -> np.ndarray:
        """A vector for each text that is near to those of texts alike: float32[texts, dimensions].

        texts: each a text, read with the tokens the model wants around it, or ids, taken as they are.  Prefixes a model
        was trained with, such as "query: ", are the caller's to write.
        pooling: how the rows of a text's tokens become one: "mean", "cls" (the first) or "last"; None is as the file
        says, or where it does not the mean, in a model that generates the last.
        normalize: vectors have length 1.  dimensions: only so many, the first ones, which models trained for it allow;
        None is all.

        RequestError: an argument, no texts, or a model made to rank where no pooling is given.  ContextFullError: a
        text of more tokens than n_ctx.  BackendError: numbers that are not finite, or not enough memory.
        """
        if pooling not in (None, *POOLINGS):
            raise RequestError(f"pooling is {pooling!r}; must be one of {', '.join(POOLINGS)}")
        self._engine.check_open()
        pooling = pooling or stated_pooling(self._file, self._engine.plan.goes_on)
        if pooling == "rank":
            raise RequestError("this model is made to rank texts (LLM.rerank); give a pooling to embed with it anyway")
        ids = embedding.encode_texts(self.tokenizer, texts)
        rows = embedding.run(self._engine_that_pools(pooling), ids, self.n_batch)
        return embedding.shaped(rows, dimensions, normalize)

    def rerank(self, query: str, documents: Sequence[str]) -> list[Ranked]:
        """The documents by how well they answer the query, the best first; those with equal scores keep their order.

        A score is what the model's classifier gives: any number, or with Qwen3 the probability of "yes".

        RequestError: an argument, or a model without a classifier.  All else as `embed`.
        """
        engine = self._engine_that_pools("rank")
        pairs = embedding.encode_pairs(self.tokenizer, self._file, query, documents)
        scores = embedding.run(engine, pairs, self.n_batch)[:, 0]
        order = np.argsort(-scores, kind="stable")
        return [Ranked(int(index), float(scores[index])) for index in order]

    def close(self) -> None:
        """Give back memory and threads, once the step that runs has ended.  Requests under way raise RequestError."""
        with self._starting:
            for engine in self._engines.values():
                engine.close()
        self._file.close()

    def __enter__(self) -> "LLM":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError("an LLM cannot be copied or pickled: each process loads the model itself")

    def _check_fits(self, ids: Sequence[int], room: int) -> None:
        if len(ids) > room:
            raise ContextFullError(f"the prompt has {len(ids)} tokens; n_ctx {self.n_ctx} leaves room for {room}")

    def _settings(
        self, max_tokens: int, stop: Stops, seed: int | None, ignore_eos: bool, names: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The fields of a Request that are the same for texts and chats, checked."""
        settings = checked(max_tokens, stop, seed, ignore_eos, **self.sampling | dict(names))
        check_bias(settings["params"], self.n_vocab)
        return settings
