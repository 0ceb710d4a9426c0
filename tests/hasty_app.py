"""The app of `tests.apps`, for an API with shorter deadlines and fewer connections: tests need not wait.

Everything is divided by HOLDFAST_TEST_HASTE. A deadline that a seeded fault has removed stays removed.
"""

import os

from holdfast.http import middleware, protocol, server
from tests.apps import app

__all__ = ["app"]

HASTE = int(os.environ["HOLDFAST_TEST_HASTE"])

middleware.BODY_SECONDS /= HASTE
protocol.SEND_SECONDS /= HASTE
for phase in protocol.PHASE_SECONDS:
    protocol.PHASE_SECONDS[phase] /= HASTE
vars(server)["CONNECTIONS_MAX"] //= HASTE
