"""The app that delivers in tests: `tests.webhooks.app:app`."""

from holdfast import Holdfast

app = Holdfast(webhooks=True)
