"""The fuzz harness: it sees every kind of fault, its cases are always the same, and no target has faults in a few of
them or in those that once had."""

import os
import pathlib
import subprocess
import sys

import pytest

from tests.fuzz import worker
from tests.fuzz.__main__ import TARGETS, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
FINE = ["fine", "refuses", "warns"]
FAULTS = {
    "raises": "KeyError: 'x' at tests/fuzz/faulty.py:",
    "exits": "SystemExit: 3",
    "recurses": "RecursionError",
    "two lines": "unclear error: 'one\\ntwo'",
    "says nothing": "unclear error: ''",
    "hides": "hides the cause",
    "warns often": "20 warnings",
    "overflows": "RuntimeWarning: overflow",
    "prints": "on stderr: noise",
    "allocates": "MemoryError",
    "touches": "MemoryError",
    "dies": "died, -6",
    "spins": "more than 2 s",
}

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="the harness needs Linux's /proc")


def fuzz(*arguments):
    command = [sys.executable, "-m", "tests.fuzz", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)


def test_each_kind_of_fault_is_seen(tmp_path):
    paths = []
    for name in [*FINE, *FAULTS, *FINE]:  # it goes on behind a case that a process died of
        paths.append(tmp_path / f"{len(paths)} {name}")
        paths[-1].write_text(name)
    done = fuzz("--target", "faulty", "--replay", *paths)
    assert done.returncode == 1 and done.stderr == "", done.stderr
    *lines, summary = done.stdout.splitlines()
    for line, (number, words) in zip(lines, enumerate(FAULTS.values(), len(FINE)), strict=True):
        assert line.startswith(f"faulty, case {number}: ") and words in line, line
    assert summary.startswith(f"faulty: {len(paths)} cases") and ", 7 gave a result, 13 faults" in summary


def test_cases_are_always_the_same():
    for name in TARGETS:
        cases = [worker.case_of(name, 1, number) for number in range(20)]
        assert cases == [worker.case_of(name, 1, number) for number in range(20)]
        assert cases != [worker.case_of(name, 2, number) for number in range(20)]
        assert len(set(cases)) > 10


def test_a_case_can_be_written(tmp_path, monkeypatch):
    words = ["--target", "tokenizer", "--seed", 7, "--case", 3, "--out", tmp_path / "case"]
    monkeypatch.setattr(sys, "argv", ["fuzz", *map(str, words)])
    assert main() == 0 and (tmp_path / "case").read_bytes() == worker.case_of("tokenizer", 7, 3)


def test_a_few_cases_have_no_fault():
    names = [name for name in TARGETS if name != "step"]  # which wants all kernels built
    done = fuzz(*(word for name in names for word in ("--target", name)), "--count", 100)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, line in zip(names, done.stdout.splitlines(), strict=True):
        assert line.startswith(f"{name}: 100 cases")
        results = int(line.split(" gave a result")[0].split()[-1])
        assert 10 < results < 100, "cases should be neither all sound nor all refused"


@pytest.mark.parametrize("name", sorted(path.name for path in CORPUS.iterdir()))
def test_what_once_had_faults_has_none(name):
    cases = sorted((CORPUS / name).iterdir())
    done = fuzz("--target", name, "--replay", *cases)
    assert done.returncode == 0 and f"{name}: {len(cases)} cases" in done.stdout, done.stdout + done.stderr
