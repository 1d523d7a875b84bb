"""Where tensors lie in a file: within it, and apart from each other."""

from collections.abc import Iterable

from edgeinfer.errors import FormatError
from edgeinfer.formats.cursor import shown


def check_places(places: Iterable[tuple[str, int, int]], size: int) -> None:
    """FormatError if a tensor (name, first byte, bytes) goes beyond the end of a file of `size` bytes or into another
    one."""
    placed = [place for place in places if place[2]]
    missing = max((start + nbytes for _, start, nbytes in placed), default=0) - size
    for name, start, nbytes in placed:
        short = start + nbytes - size
        if short > 0:
            lost = f"bytes missing: {min(short, nbytes)} of the tensor, {missing} of the file"
            raise FormatError(f"truncated: the file ends before tensor {shown(name)} does ({lost})")
    placed.sort(key=lambda place: place[1])
    for (before, start, nbytes), (after, following, _) in zip(placed, placed[1:], strict=False):
        if following < start + nbytes:
            raise FormatError(f"tensors {shown(before)} and {shown(after)} overlap")
