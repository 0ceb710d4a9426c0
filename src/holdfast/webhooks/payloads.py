"""Kinds, queues and payloads of webhook tasks."""

import json
from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

PUBLISH = "webhook.publish"
DELIVER = "webhook.deliver"
# The field of a delivery's payload by which deliveries stand behind limits of their own.
ENDPOINT = "endpoint"


class Event(BaseModel):
    """What was published; `data` is JSON text, so that it is sent as it was written."""

    model_config = ConfigDict(frozen=True)

    id: str
    type: str
    data: str
    version: int | None = None
    # When it was published, if nothing else was said.
    occurred_at: datetime | None = None

    def body(self, published_at: datetime) -> str:
        """What is sent: id, type, when it occurred, and the data."""
        at = self.occurred_at or published_at
        named: dict[str, object] = {"id": self.id, "type": self.type, "timestamp": at.isoformat()}
        if self.version is not None:
            named["version"] = self.version
        return json.dumps(named, separators=(",", ":"))[:-1] + f',"data":{self.data}}}'


class Delivery(BaseModel):
    """One event for one endpoint; `body` is sent as it stands here, to the byte."""

    model_config = ConfigDict(frozen=True)

    endpoint: str
    # It stands in a header and in what is signed.
    event: str = Field(pattern=r"^[A-Za-z0-9_-]{1,100}$")
    type: str
    body: str
