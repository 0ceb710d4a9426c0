"""The table of routes and roles. A route that is not listed is refused."""

from fastapi import APIRouter
from fastapi.routing import APIRoute

from holdfast.core.errors import HoldfastError
from holdfast.ops.tokens import Bearer, Role

_RANK = {Role.VIEWER: 1, Role.OPERATOR: 2, Role.ADMIN: 3}

# The least role that may; the routes of workers are theirs alone.
ROUTES: dict[tuple[str, str], Role] = {
    ("GET", "/api/tasks"): Role.VIEWER,
    ("POST", "/api/tasks"): Role.OPERATOR,
    ("GET", "/api/tasks/ops"): Role.VIEWER,
    ("GET", "/api/tasks/dead-letters"): Role.VIEWER,
    ("GET", "/api/tasks/dead-letters/preview"): Role.VIEWER,
    ("GET", "/api/tasks/dead-letters/statistics"): Role.VIEWER,
    ("POST", "/api/tasks/dead-letters/retry"): Role.OPERATOR,
    ("GET", "/api/tasks/audit-logs"): Role.VIEWER,
    ("GET", "/api/tasks/audit-logs/export"): Role.VIEWER,
    ("POST", "/api/tasks/audit-logs/prune"): Role.ADMIN,
    ("GET", "/api/tasks/{task_id}"): Role.VIEWER,
    ("GET", "/api/tasks/{task_id}/why"): Role.VIEWER,
    ("POST", "/api/tasks/{task_id}/retry"): Role.OPERATOR,
    ("POST", "/api/tasks/{task_id}/edit"): Role.OPERATOR,
    ("POST", "/api/tasks/{task_id}/cancel"): Role.OPERATOR,
    ("POST", "/api/tasks/{task_id}/pause"): Role.OPERATOR,
    ("POST", "/api/tasks/{task_id}/resume"): Role.OPERATOR,
    ("POST", "/api/tasks/{task_id}/forget"): Role.ADMIN,
    ("POST", "/api/tasks/{task_id}/reveal"): Role.ADMIN,
    ("GET", "/api/groups"): Role.VIEWER,
    ("GET", "/api/groups/{fingerprint}"): Role.VIEWER,
    ("POST", "/api/groups/{fingerprint}/ignore"): Role.OPERATOR,
    ("POST", "/api/groups/{fingerprint}/resolve"): Role.OPERATOR,
    ("POST", "/api/groups/{fingerprint}/reopen"): Role.OPERATOR,
    ("POST", "/api/groups/{fingerprint}/note"): Role.OPERATOR,
    ("GET", "/api/plans"): Role.VIEWER,
    ("POST", "/api/plans"): Role.OPERATOR,
    ("GET", "/api/plans/{plan_id}"): Role.VIEWER,
    ("POST", "/api/plans/{plan_id}/approve"): Role.OPERATOR,
    ("POST", "/api/plans/{plan_id}/start"): Role.OPERATOR,
    ("POST", "/api/plans/{plan_id}/pause"): Role.OPERATOR,
    ("POST", "/api/plans/{plan_id}/resume"): Role.OPERATOR,
    ("POST", "/api/plans/{plan_id}/abort"): Role.OPERATOR,
    ("GET", "/api/queues"): Role.VIEWER,
    ("POST", "/api/queues/{name}/pause"): Role.OPERATOR,
    ("POST", "/api/queues/{name}/resume"): Role.OPERATOR,
    ("POST", "/api/kinds/{name}/pause"): Role.OPERATOR,
    ("POST", "/api/kinds/{name}/resume"): Role.OPERATOR,
    ("GET", "/api/limits"): Role.VIEWER,
    ("POST", "/api/limits"): Role.OPERATOR,
    ("POST", "/api/limits/clear"): Role.OPERATOR,
    ("GET", "/api/workers"): Role.VIEWER,
    ("GET", "/api/schedules"): Role.VIEWER,
    ("POST", "/api/schedules/{name}/pause"): Role.OPERATOR,
    ("POST", "/api/schedules/{name}/resume"): Role.OPERATOR,
    ("POST", "/api/schedules/{name}/run"): Role.OPERATOR,
    ("POST", "/api/schedules/{name}/remove"): Role.OPERATOR,
    ("POST", "/api/webhooks/events"): Role.OPERATOR,
    ("GET", "/api/webhooks/endpoints"): Role.VIEWER,
    ("POST", "/api/webhooks/endpoints"): Role.ADMIN,
    ("GET", "/api/webhooks/endpoints/{endpoint_id}"): Role.VIEWER,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/change"): Role.ADMIN,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/rotate"): Role.ADMIN,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/disable"): Role.OPERATOR,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/enable"): Role.OPERATOR,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/remove"): Role.ADMIN,
    ("GET", "/api/webhooks/endpoints/{endpoint_id}/attempts"): Role.VIEWER,
    ("POST", "/api/webhooks/endpoints/{endpoint_id}/resend"): Role.OPERATOR,
    ("GET", "/api/webhooks/deliveries/{delivery_id}/attempts"): Role.VIEWER,
    ("POST", "/api/webhooks/deliveries/{delivery_id}/resend"): Role.OPERATOR,
    ("GET", "/api/me"): Role.VIEWER,
    ("GET", "/api/now"): Role.VIEWER,
    ("GET", "/api/health"): Role.VIEWER,
    ("GET", "/api/live"): Role.VIEWER,
    ("GET", "/metrics"): Role.VIEWER,
    ("GET", "/api/openapi.json"): Role.VIEWER,
    ("POST", "/api/workers"): Role.WORKER,
    ("POST", "/api/workers/{worker_id}/claim"): Role.WORKER,
    ("POST", "/api/workers/{worker_id}/heartbeat"): Role.WORKER,
    ("POST", "/api/workers/{worker_id}/leave"): Role.WORKER,
    ("POST", "/api/tasks/{task_id}/report"): Role.WORKER,
}
# For whoever asks: they say nothing but whether we are there, or look at who asks by themselves.
OPEN = frozenset(
    {
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("POST", "/api/session"),
        ("DELETE", "/api/session"),
    }
)
# For workers beside the others: how their clients are made.
WORKERS_TOO = frozenset({("GET", "/api/openapi.json")})
# The console: pages without anything in them, which ask the routes above.
PAGES = frozenset({("GET", "/ops"), ("GET", "/ops/{path:path}")})


class RouteNotInTable(HoldfastError):
    """A route was added, and nobody said who may use it."""

    def __init__(self, method: str, path: str) -> None:
        super().__init__(f"{method} {path} is not in the table of http/permissions.py: say who may use it")


def least(method: str, path: str) -> Role | None:
    """The least role that may use a route; None where it is open."""
    if (method, path) in OPEN | PAGES:
        return None
    role = ROUTES.get((method, path))
    if role is None:
        raise RouteNotInTable(method, path)
    return role


def check(router: APIRouter) -> None:
    """Refuse a route that is not in the table: nobody learns by accident that it was open to all."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            for method in route.methods or ():
                least(method, route.path)


def may(bearer: Bearer, least_role: Role) -> bool:
    """Whether this is somebody who may."""
    if least_role is Role.WORKER or bearer.role is Role.WORKER:
        return bearer.role is least_role
    return _RANK[bearer.role] >= _RANK[least_role]
