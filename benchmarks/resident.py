"""Memory that a process has resident after 40 tokens beside the model's file, by kind, as Linux counts it.

usage: resident.py MODEL.gguf"""

import re
import sys
from collections import defaultdict

import edgeinfer


def resident() -> dict[str, list[int]]:
    """For each file mapped, or "" for memory that is of none: bytes resident, and of these written to."""
    found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    name = ""
    with open("/proc/self/smaps") as lines:
        for line in lines:
            words = line.split()
            if re.match("[0-9a-f]+-", line):
                name = words[5] if words[5:] and words[5].startswith("/") else ""
            elif words[0] in ("Rss:", "Anonymous:"):
                found[name][words[0] == "Anonymous:"] += 1024 * int(words[1])
    return found


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with edgeinfer.LLM(sys.argv[1]) as llm:
        for _ in llm.stream("The capital of France is", max_tokens=40, ignore_eos=True):
            pass
        found = resident()
    others = {name: sizes for name, sizes in found.items() if not name.endswith(".gguf")}
    total, own = (sum(sizes[place] for sizes in others.values()) / 1e6 for place in (0, 1))
    print(f"{total:.0f} MB beside the model's file: {own:.0f} its own with the KV, {total - own:.0f} of other files")
    for name, sizes in sorted(others.items(), key=lambda item: item[1][1] - item[1][0])[:4]:
        print(f"{(sizes[0] - sizes[1]) / 1e6:8.1f} {name}")


if __name__ == "__main__":
    main()
