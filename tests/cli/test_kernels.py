"""Packs built ahead of time, for this CPU and for others."""

import pathlib

import pytest

from edgeinfer.simd_kernels import building, cpu, kernels, pack

NAMES = ["add", "run"]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """A table of two kernels; what is built of it, a list for each time."""
    table, done, build = kernels.table(), [], building.build
    monkeypatch.setattr(kernels, "table", lambda: {name: table[name] for name in NAMES})
    monkeypatch.setattr(building, "build", lambda names, tier: done.append(names) or build(names, tier))
    return done


@pytest.mark.parametrize("tier", ["portable", "dotprod", "avx2"])
def test_a_pack_for_any_tier_is_found_where_that_tier_looks(tmp_path, few, tier, capsys):
    folder = pack.build_all(cpu.tier(tier), tmp_path)
    assert folder.parent == tmp_path and sorted(path.name for path in folder.iterdir()) == ["add.o", "run.o"]
    assert f"building 2 kernels for {tier} ..." in capsys.readouterr().err
    assert set(pack.Pack(cpu.tier(tier), tmp_path).objects(NAMES)) == set(NAMES) and few == [NAMES]
    assert pack.build_all(cpu.tier(tier), tmp_path) == folder and few == [NAMES]
    assert capsys.readouterr().err == ""


def test_the_command_names_the_folders(tmp_path, capsys):
    from edgeinfer.cli.kernels import build

    build(["pi5", "haswell"], tmp_path)
    folders = [pathlib.Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert [name.partition("-")[0] for name in folders] == ["dotprod", "avx2"]
    assert sorted(folders) == sorted(path.name for path in tmp_path.iterdir())


def test_unknown_cpus_and_folders_that_cannot_be_written_are_errors(edgeinfer, tmp_path):
    assert "no CPU 'z80' is known; there are avx512vnni," in edgeinfer.fails(2, "kernels", "build", "--cpu", "z80")
    (tmp_path / "file").write_text("")
    said = edgeinfer.fails(1, "kernels", "build", "--cpu", "portable", "--out", tmp_path / "file")
    assert "kernels cannot be written to" in said and "Not a directory" in said


def test_help_is_given(edgeinfer):
    assert "build" in edgeinfer("kernels", "--help").stdout
    assert "--cpu" in edgeinfer("kernels", "build", "--help").stdout
