"""A plugin of pytest that runs a sample: of each test's cases so many that each value of each parameter occurs."""

import zlib

import pytest


@pytest.hookimpl(trylast=True)  # after what -k leaves
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Cases are looked at in an order that is random but always the same, so that values meet in all combinations."""
    chosen, seen = set(), set()
    for item in sorted(items, key=lambda item: zlib.crc32(item.nodeid.encode())):
        test = item.nodeid.partition("[")[0]
        values = item.callspec.params.items() if hasattr(item, "callspec") else ()
        met = {(test, name, repr(value)) for name, value in values} or {test}
        if met - seen:
            chosen.add(item)
            seen |= met
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
