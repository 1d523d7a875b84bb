"""`edgeinfer kernels build`: kernels ahead of their first use, for this CPU or another."""

from pathlib import Path
from typing import Annotated

import typer

from edgeinfer.models import catalog


def build(
    cpu: Annotated[
        list[str] | None,
        typer.Option(help="A CPU or a tier, such as pi5 or avx2; may be given again.  This machine's if left out."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the packs; that of the kernels kept here if left out.")
    ] = None,
) -> None:
    """Build every kernel, so that no model has to wait for one.

    A pack for another CPU works there in the folder `kernels` of EDGEINFER_HOME (~/.cache/edgeinfer), under the same
    version of edgeinfer.  Packs in simd_kernels/packs of a checkout are part of the wheel that is made of it.
    """
    from edgeinfer.simd_kernels import cpu as cpus
    from edgeinfer.simd_kernels import pack

    for tier in [cpus.named(name) for name in cpu] if cpu else [cpus.host().tier]:
        print(pack.build_all(tier, out or catalog.home() / "kernels"))
