"""A receiver of webhooks with FastAPI: `uvicorn examples.receiver_fastapi:app`."""

import json
import os

from fastapi import FastAPI, Request, Response

from holdfast.webhooks import NotOurs, verify

app = FastAPI()
# Yours is a table with a unique id, written in the transaction of what the event leads to.
seen: set[str] = set()


@app.post("/hooks")
async def receive(request: Request) -> Response:
    """Say yes only when it is dealt with: whatever else is answered, it comes again."""
    body = await request.body()
    try:
        event = verify(body, request.headers, os.environ["WEBHOOK_SECRET"])
    except NotOurs:
        return Response(status_code=401)
    if event not in seen:
        data = json.loads(body)["data"]
        print("new:", event, data)
        seen.add(event)
    return Response(status_code=204)
