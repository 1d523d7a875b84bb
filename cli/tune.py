"""`edgeinfer tune [MODEL]`: the numbers of threads that suit this machine and this model, measured and kept."""

from typing import Annotated

import typer

from edgeinfer.models import catalog


def command(
    model: Annotated[
        str | None, typer.Argument(help="A GGUF file, a Hugging Face folder or a pulled model's name.")
    ] = None,
) -> None:
    """Measure with how many threads this model decodes and reads prompts fastest, and use these from now on.

    It takes some seconds and wants a machine that does nothing else.  All cores stay the choice unless fewer are
    faster by more than the noise.
    """
    from edgeinfer import files, tune
    from edgeinfer.errors import BackendError
    from edgeinfer.plan import trace

    with files.open(str(catalog.resolve(model or catalog.default().name, fetch=False))) as file:
        plan = trace(file)
        threads = tune.tune(plan)
        file.check()
        try:
            path = tune.keep(plan, threads)
        except OSError as error:
            raise BackendError(f"the choice cannot be kept in {catalog.home()}: {error.strerror}") from error
    print(f"decode {threads.decode} threads, prefill {threads.prefill} threads; kept in {path}")
