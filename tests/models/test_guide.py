"""docs/models.md is what the code is: every architecture, by its own words, and the features of the kit's models."""

import pytest

from edgeinfer import models
from tests.models import guide

ROWS = [line.strip("| ").split(" | ") for line in guide.PAGE.read_text().splitlines() if line.startswith("| `")]


def test_every_architecture_has_a_row_in_its_own_words():
    assert [row[0] for row in ROWS] == [f"`{name}`" for name in models.names()]
    assert [row[1] for row in ROWS] == [guide.families(name) for name in models.names()]
    assert [int(row[-1]) for row in ROWS] == [guide.lines(name) for name in models.names()]


def test_every_class_is_listed():
    assert guide.PAGE.read_text().endswith(guide.folders())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_features_and_counts_are_those_of_the_kit(shared, row):
    arch = row[0].strip("`")
    names = [case["name"] for case in guide.cases()[arch]]
    assert row[2].strip() == guide.needs(arch)
    every = f"{len(names)} of {len(names)}" if names else "-"
    assert row[3:5] == [every, every]  # that they do pass is what test_kit.py shows
