"""What `edgeinfer bench` prints: llama-bench's table and keys, and what edgeinfer adds."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]


def text(rows: Sequence[Row], form: str) -> str:
    """The rows in one of bench.FORMATS."""
    if form == "json":
        return json.dumps(list(rows), indent=1)
    if form == "jsonl":
        return "\n".join(json.dumps(row) for row in rows)
    if form == "csv":
        out = io.StringIO()
        keys = list(dict.fromkeys(key for row in rows for key in row))
        writer = csv.DictWriter(out, keys, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue().rstrip("\n")
    tables = [_table(_speeds(rows)), *(_table(_phases(row)) for row in rows if "phases" in row)]
    return "\n\n".join(tables)


def _speeds(rows: Sequence[Row]) -> list[list[str]]:
    """A line a test, under llama-bench's heads."""
    peers = any("times" in row for row in rows)
    heads = ["model", "size", "params", "backend", "threads", "test", "t/s", "share", "of"]
    return [heads + ["times"] * peers, *([*_speed(row), *[_times(row)] * peers] for row in rows)]


def _speed(row: Row) -> list[str]:
    speed = f"{row['avg_ts']:.2f} ± {row['stddev_ts']:.2f}" if row["avg_ts"] else f"{row['avg_ns'] / 1e9:.2f} s"
    share = row.get("share_of_limit")
    return [
        row["model_type"],
        f"{row['model_size'] / 2**20:.2f} MiB",
        f"{row['model_n_params'] / 1e6:.2f} M",
        row["backends"],
        str(row["n_threads"]),
        row["test"],
        speed,
        f"{100 * share:.0f} %" if share else "",
        f"{row['limit'] / 1e9:.1f} {row['limit_unit']}" if share else "",
    ]


def _times(row: Row) -> str:
    """How many times as fast as the peer."""
    return f"{row['times']:.2f}" if "times" in row else ""


def _phases(row: Row) -> list[list[str]]:
    """A line a kind of operation."""
    whole = sum(phase["ns"] for phase in row["phases"])
    lines = [[f"{row['test']}, {row['n_threads']} threads", "ms", "share", "GB/s", "GMAC/s", "of limit"]]
    for phase in row["phases"]:
        seconds = phase["ns"] / 1e9
        speeds = [f"{phase[key] / seconds / 1e9:.1f}" if phase[key] else "" for key in ("bytes", "products")]
        share = f"{100 * phase['share_of_limit']:.0f} %" if phase["share_of_limit"] else ""
        lines.append([phase["name"], f"{1e3 * seconds:.3f}", f"{100 * phase['ns'] / whole:.1f} %", *speeds, share])
    return lines


def _table(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)) + " |" for line in lines
    ]
    return "\n".join([text[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *text[1:]])
