"""What `edgeinfer doctor` says of the machine."""

import json
import platform


def test_the_report_in_words(edgeinfer):
    done = edgeinfer("doctor")
    assert done.returncode == 0
    assert all("building" in line for line in done.stderr.splitlines())  # the kernels that measure
    for word in (
        "versions:",
        "llvmlite",
        "cpu",
        "threads used",
        "tier",
        "caches",
        "temperature",
        "execution providers",
        edgeinfer.environment["EDGEINFER_HOME"],
    ):
        assert word in done.stdout


def test_the_report_as_json(edgeinfer):
    report = json.loads(edgeinfer("doctor", "--json").stdout)
    assert report["versions"]["python"] == platform.python_version()
    assert report["machine"]["threads_used"] >= 1
    assert 0 < report["machine"]["memory_available"] <= report["machine"]["memory"]
    assert report["models"]["writable"] is True and report["models"]["installed"] == []


def test_the_cap_of_the_instruction_set_is_shown(edgeinfer):
    edgeinfer.environment["EDGEINFER_ISA"] = "portable"
    kernels = json.loads(edgeinfer("doctor", "--json").stdout)["kernels"]
    assert kernels["tier"] == "portable" and "EDGEINFER_ISA" in kernels["reason"]
    assert kernels["writable"] is True and kernels["built"] == 0


def test_a_wrong_cap_is_a_problem_the_report_shows(edgeinfer):
    edgeinfer.environment["EDGEINFER_ISA"] = "mmx"
    done = edgeinfer("doctor")
    assert done.returncode == 1 and "problem" in done.stdout and "'mmx'" in done.stdout
    done = edgeinfer("doctor", "--json")
    assert done.returncode == 1 and "'mmx'" in json.loads(done.stdout)["kernels"]["problem"]


def test_a_store_that_cannot_be_written_is_shown(edgeinfer, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    edgeinfer.environment["EDGEINFER_HOME"] = str(tmp_path / "file")
    assert json.loads(edgeinfer("doctor", "--json").stdout)["models"]["writable"] is False


def test_a_home_that_cannot_be_looked_into_is_shown(edgeinfer):
    edgeinfer.environment["EDGEINFER_HOME"] = "/" + "x" * 1000  # as little to be asked about as a folder of another's
    report = json.loads(edgeinfer("doctor", "--json").stdout)
    assert (report["models"]["installed"], report["kernels"]["built"]) == ([], 0)
