"""`edgeinfer bench MODEL`: speed of prefill and decode, as tokens a second and as shares of what the machine can do."""

import contextlib
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from edgeinfer.errors import RequestError
from edgeinfer.models import catalog

if TYPE_CHECKING:
    from edgeinfer.benchmark import Test

FORMATS = ("md", "json", "jsonl", "csv")


def command(
    model: Annotated[str, typer.Argument(help="A GGUF file, a Hugging Face folder or a pulled model's name.")],
    n_prompt: Annotated[str, typer.Option("-p", "--n-prompt", help="Tokens of a prompt; several: 128,512.")] = "512",
    n_gen: Annotated[str, typer.Option("-n", "--n-gen", help="Tokens to generate.")] = "128",
    both: Annotated[list[str] | None, typer.Option("-pg", help="PROMPT,GEN: both in one test.")] = None,
    depth: Annotated[str, typer.Option("-d", "--n-depth", help="Tokens in the context before the test.")] = "0",
    rows: Annotated[str, typer.Option(help="Steps of so many tokens that all need logits: 1,2,4,8,16.")] = "",
    batch: Annotated[int, typer.Option("-b", "--batch-size", min=1, help="Tokens of a prompt in one step.")] = 512,
    threads: Annotated[str, typer.Option("-t", "--threads", help="CPU threads; all physical cores if left out.")] = "",
    repetitions: Annotated[int, typer.Option("-r", "--repetitions", min=1)] = 5,
    kv_type: Annotated[str, typer.Option(help="Type of K and V in memory: f32, f16 or q8_0.")] = "f16",
    weights: Annotated[str, typer.Option(help="Where they lie: mmap, huge (pages; a copy) or auto.")] = "mmap",
    no_warmup: Annotated[
        bool, typer.Option("--no-warmup", help="No run of each test before those that count.")
    ] = False,
    phases: Annotated[bool, typer.Option("--phases", help="Also where the time of a step goes.")] = False,
    start: Annotated[bool, typer.Option("--start", help="Also the time from nothing to the first token.")] = False,
    plot: Annotated[pathlib.Path | None, typer.Option(help="A picture of the phases under the roofline.")] = None,
    vs: Annotated[str | None, typer.Option(metavar="PYTHON", help="In turns with its llama-cpp-python.")] = None,
    output: Annotated[str, typer.Option("-o", "--output", help=f"{', '.join(FORMATS)}.")] = "md",
    as_json: Annotated[bool, typer.Option("--json", help="As -o json.")] = False,
) -> None:
    """Measure prefill (pp) and decode (tg) as llama-bench does; decode is greedy, as `run --temp 0`.

    The share is that of the machine's own limit, measured right before and after each repetition, for shared cores
    change their speed: a decode's bytes of weights and KV against the speed at which the pages they lie in can be
    read, a prefill's multiplications against the 8-bit products a second that the cores do from registers.  Share and
    limit are medians.
    """
    form = "json" if as_json else output
    if form not in FORMATS:
        raise RequestError(f"-o {form!r}; must be one of {', '.join(FORMATS)}")
    tests = _tests(_numbers(n_prompt), _numbers(n_gen), [_pair(text) for text in both or ()], depth, _numbers(rows))
    if not tests:
        raise RequestError("nothing to measure: -p, -n, -pg and --rows are all 0 or left out")

    from edgeinfer import machine
    from edgeinfer.benchmark import Bench
    from edgeinfer.cli import bench_plot, bench_report, bench_run
    from edgeinfer.cli.bench_versus import Peer
    from edgeinfer.options import check_options

    counts = _numbers(threads) or [machine.cores()]
    for count in counts:
        check_options(n_threads=count, kv_type=kv_type, weights=weights)
    if plot:
        bench_plot.library()
    path = str(catalog.resolve(model, fetch=False))
    found: list[bench_report.Row] = []
    for count in counts:
        with contextlib.ExitStack() as stack:
            bench = stack.enter_context(Bench(path, count, kv_type, max(test.room for test in tests), batch, weights))
            peer = None if vs is None else stack.enter_context(Peer(vs, path, count, bench.n_ctx, batch))
            for test in tests:
                found += bench_run.measure(bench, test, repetitions, not no_warmup, peer)
                if phases or plot:
                    found[-1]["phases"] = bench_run.phases(bench, test)
    if start:
        found += [bench_run.start(path, found[0], kind) for kind in ("cold", "warm")]
    if plot:
        bench_plot.roofline([row for row in found if "phases" in row], plot)
    print(bench_report.text(found, form), flush=True)


def _numbers(text: str) -> list[int]:
    """As llama-bench takes them: 128,512.  None of them is negative."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not all(word.isdecimal() and len(word) < 10 for word in words):
        raise RequestError(f"{text[:50]!r} must be whole numbers below 10**9 with commas between them")
    return [int(word) for word in words]


def _pair(text: str) -> tuple[int, int]:
    numbers = _numbers(text)
    if len(numbers) != 2 or not all(numbers):
        raise RequestError(f"-pg {text!r} must be two numbers above 0, such as 512,128")
    return numbers[0], numbers[1]


def _tests(
    prompts: Sequence[int], gens: Sequence[int], pairs: Sequence[tuple[int, int]], depth: str, rows: Sequence[int]
) -> "list[Test]":
    """All tests at all depths."""
    from edgeinfer.benchmark import Test

    return [
        test
        for before in _numbers(depth) or [0]
        for test in [
            *(Test(prompt=n, depth=before) for n in prompts if n),
            *(Test(gen=n, depth=before) for n in gens if n),
            *(Test(prompt=p, gen=g, depth=before) for p, g in pairs),
            *(Test(rows=n, depth=before) for n in rows if n),
        ]
    ]
