-- Who may use the HTTP API, and what it answered to those who asked twice.

create table holdfast.api_tokens (
    id text primary key,
    name text not null,
    role text not null check (role in ('viewer', 'operator', 'admin', 'worker')),
    secret_hash bytea not null,
    created_at timestamptz not null,
    created_by text not null,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    revoked_by text
);
comment on table holdfast.api_tokens is 'tokens of the HTTP API: only a hash of each secret is kept';

create table holdfast.api_answers (
    actor text not null,
    key text not null,
    asked bytea not null,
    status smallint,
    media_type text,
    body bytea,
    answered_at timestamptz not null,
    primary key (actor, key)
);
create index api_answers_answered on holdfast.api_answers (answered_at);
comment on table holdfast.api_answers is 'idempotency of the HTTP API: the first answer, written in the commit of its effect';
