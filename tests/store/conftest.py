"""What several files of this folder begin with."""

import pytest

from holdfast.config import Settings
from holdfast.store.limits import Limits
from tests.world import World


@pytest.fixture
def limits(world: World) -> Limits:
    return Limits(Settings(database_url=world.url), world.events.append, by="ada")
