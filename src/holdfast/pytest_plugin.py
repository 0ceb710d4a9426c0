"""The pytest plugin with the fixture `holdfast`, for the app in the ini option `holdfast_app`."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdfast.testing import Bench


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option: where the app is."""
    parser.addini("holdfast_app", "MODULE:NAME of the Holdfast app under test", default="")


try:
    import pytest_asyncio
except ImportError:  # pragma: no cover (then there is nothing to run a coroutine with)
    pass
else:

    @pytest_asyncio.fixture
    async def holdfast(request: pytest.FixtureRequest) -> "AsyncIterator[Bench]":
        """A bench on the app's own database, empty at the start and at the end of the test."""
        from holdfast.cli.load import load
        from holdfast.testing import Bench

        path = str(request.config.getini("holdfast_app"))
        if not path:
            raise pytest.UsageError(
                'set holdfast_app = "shop.tasks:app" in the pytest section of pyproject.toml'
            )
        bench = await Bench.open(load(path))  # type: ignore[arg-type]
        await bench.empty()
        try:
            yield bench
        finally:
            await bench.empty()
            await bench.close()
