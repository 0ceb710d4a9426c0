"""A receiver of webhooks with Django: `path("hooks", receive)` in your urls."""

import json
import os

from django.http import HttpRequest, HttpResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from holdfast.webhooks import NotOurs, verify

# Yours is a table with a unique id, written in the transaction of what the event leads to.
seen: set[str] = set()


@csrf_exempt
@require_POST
def receive(request: HttpRequest) -> HttpResponse:
    """Say yes only when it is dealt with: whatever else is answered, it comes again."""
    try:
        event = verify(request.body, request.headers, os.environ["WEBHOOK_SECRET"])
    except NotOurs:
        return HttpResponse(status=401)
    if event not in seen:
        data = json.loads(request.body)["data"]
        print("new:", event, data)
        seen.add(event)
    return HttpResponse(status=204)
