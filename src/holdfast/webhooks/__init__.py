"""Webhooks: signed events delivered to external endpoints.

Built on what the engine gives everybody: kinds, outcomes, limits, groups and plans.
`docs/explanation/anatomy-of-a-feature.md` shows how it is put together. Receivers need `verify` alone.
"""

from holdfast.core.errors import NotOurs as NotOurs
from holdfast.webhooks.signing import verify as verify
