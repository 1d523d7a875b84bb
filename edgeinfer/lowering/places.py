"""Where buffers lie in memory, and where the workers wait for each other."""

from __future__ import annotations

from edgeinfer.lowering.nodes import Buffer, Node


def place(nodes: list[Node]) -> list[int]:
    """Give every buffer a slot of memory; slots are used again when their buffer is done.  Returns the slots' strides.

    Tiled buffers have slots of their own kind: in one used for both, a worker's own rows would be others' as well."""
    for number, node in enumerate(nodes):
        for buffer in (*node.reads.values(), *node.writes.values()):
            buffer.root.last = number
    slots: list[tuple[int, bool]] = []
    free: list[int] = []
    for number, node in enumerate(nodes):
        for buffer in (b.root for b in node.writes.values()):
            if buffer.slot < 0 and buffer.stride and not buffer.logits:
                fitting = [slot for slot in free if slots[slot] == (buffer.stride, buffer.tiled)]
                buffer.slot = fitting[0] if fitting else len(slots)
                if fitting:
                    free.remove(buffer.slot)
                else:
                    slots.append((buffer.stride, buffer.tiled))
        done = {b.root.slot for b in (*node.reads.values(), *node.writes.values()) if b.root.last == number}
        free.extend(sorted(done - {-1}))
    return [stride for stride, _ in slots]


def mark_waits(nodes: list[Node]) -> None:
    """Mark the node before each one that could meet memory another worker has used since the last wait.

    Work on rows of one's own meets nobody, as long as the rows are counted alike."""
    touched: dict[tuple[str, int], tuple[str, bool]] = {}  # place -> (how rows are shared out, written)
    for before, node in zip([None, *nodes], nodes, strict=False):
        mode = node.rows if node.alone else "any"
        uses = [(identity(b), False) for b in node.reads.values()] + [(identity(b), True) for b in node.writes.values()]
        clash = any(
            (written or touched[place][1]) and not (mode == touched[place][0] != "any")
            for place, written in uses
            if place in touched
        )
        if clash and before is not None:
            before.wait = True
            touched.clear()
        for place, written in uses:
            old_mode, old_written = touched.get(place, (mode, False))
            touched[place] = (mode if old_mode == mode else "any", written or old_written)
    nodes[-1].wait = True


def mark_chains(nodes: list[Node]) -> None:
    """Mark where runs of nodes begin that do each row on its own and need no wait between them."""
    first: Node | None = None
    for node in nodes:
        if not node.alone or (first and first.rows != node.rows):
            first = None
        if node.alone:
            first = first or node
            first.chain += 1
            if node.wait:
                first = None


def identity(buffer: Buffer) -> tuple[str, int]:
    root = buffer.root
    if root.logits:
        return ("logits", 0)
    return ("slot", root.slot) if root.slot >= 0 else ("pool", id(root))
