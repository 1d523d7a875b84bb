"""What is in the catalog and what is here."""

import json

from edgeinfer.models import catalog


def test_every_model_is_listed_with_its_state(edgeinfer, monkeypatch):
    monkeypatch.setenv("EDGEINFER_HOME", edgeinfer.environment["EDGEINFER_HOME"])
    installed = catalog.default()
    installed.path.parent.mkdir(parents=True)
    with open(installed.path, "wb") as file:
        file.truncate(installed.bytes)
    lines = edgeinfer("list").stdout.splitlines()
    assert len(lines) == len(catalog.entries())
    assert lines[0].split()[:4] == [installed.name, "98", "MB", "installed"] and "default" in lines[0]
    assert all(line.split()[3] == "available" for line in lines[1:])
    rows = json.loads(edgeinfer("list", "--json").stdout)
    assert [row["path"] for row in rows] == [str(installed.path)] + [None] * (len(rows) - 1)
    assert [row["name"] for row in rows] == [entry.name for entry in catalog.entries()]
