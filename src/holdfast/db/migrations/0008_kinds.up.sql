-- What workers declare of their kinds, one row for each kind and release of the users' code. It outlives the workers, so that
-- whoever shows a payload knows which of its fields are secret. Claims never read it.

create table holdfast.kinds (
    kind text not null,
    -- HOLDFAST_RELEASE of the worker; empty where it has none, and for workers in other languages.
    release text not null,
    queue text not null,
    secrets text[] not null default '{}',
    guarded boolean not null default false,
    -- Of the JSON schema of the payload, where the kind has a model for it.
    payload_hash text,
    declared_at timestamptz not null default now(),
    primary key (kind, release)
);

-- Answers are kept by the id of a token now: those kept by its name are never asked for again, and may hold what was revealed.
delete from holdfast.api_answers;
