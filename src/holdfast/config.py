"""Settings, read once from `HOLDFAST_…` environment variables, with `DATABASE_URL` as a fallback."""

from pydantic import AliasChoices, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

PAYLOAD_BYTES_MAX = 256_000
AUDIT_PRUNE_DAYS_MIN = 1


class Settings(BaseSettings):
    """Where the database is, and the limits on what it is given."""

    model_config = SettingsConfigDict(env_prefix="HOLDFAST_", frozen=True, populate_by_name=True)

    database_url: str = Field(
        default="",
        validation_alias=AliasChoices("HOLDFAST_DATABASE_URL", "DATABASE_URL"),
        description="Where the tasks live; empty means libpq's own variables.",
    )
    schema_name: str = Field(
        default="holdfast",
        validation_alias="HOLDFAST_SCHEMA",
        pattern=r"^[a-z_][a-z0-9_]{0,47}$",
        description="The schema that holds every table of Holdfast.",
    )
    payload_bytes_max: int = Field(
        default=PAYLOAD_BYTES_MAX,
        gt=0,
        description="The largest payload, in bytes of JSON; in SQL it takes effect with `holdfast migrate`.",
    )
    result_bytes_max: int = Field(default=64_000, gt=0, description="The largest result, in bytes of JSON.")
    direct_url: str = Field(
        default="",
        description="The same database past any pooler, for wake-up hints; empty where the first is direct.",
    )
    audit_ttl_days: int = Field(
        default=30,
        ge=0,
        description="Days after which the content of the audit is let go; 0 keeps it for ever.",
    )
    audit_prune_days_min: int = Field(
        default=AUDIT_PRUNE_DAYS_MIN,
        ge=0,
        le=36_500,
        description="Days in which an entry of the audit cannot be pruned; as of `holdfast migrate`.",
    )
    approval_above: int = Field(
        default=1_000, ge=0, description="A plan with more items than this needs a second person."
    )
    webhooks_queue: str = Field(
        default="default", min_length=1, description="The queue of events and their deliveries."
    )
    webhooks_deadline_seconds: float = Field(
        default=5.0, gt=0, le=60, description="How long one delivery may take, from the lookup to the answer."
    )
    webhooks_plain: bool = Field(default=False, description="Whether endpoints may be http://, without TLS.")
    webhooks_allow: str = Field(
        default="",
        description="Networks that deliveries may reach beside the public internet: `10.1.0.0/16, ::1/128`.",
    )
    release: str = Field(
        default="",
        max_length=100,
        description="What your code is, such as its version: shown beside workers and what fails on them.",
    )
    environment: str = Field(
        default="",
        max_length=40,
        description="What the console calls this installation: production, staging.",
    )
    hints: bool = Field(
        default=True,
        description="Whether enqueuing tells listening workers; off for callers that PREPARE TRANSACTION.",
    )
