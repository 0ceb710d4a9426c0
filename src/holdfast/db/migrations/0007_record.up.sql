-- What the engine records so that its decisions follow the database's clock alone.

alter table holdfast.schedules
    -- Every tick up to this moment has been dealt with: it was fired, made up for or skipped. None of them fires again.
    add column caught_up_to timestamptz not null default now(),
    -- When its ticks could not be fired last; they are tried again a minute later.
    add column failed_at timestamptz;

-- What lies before the next tick has been dealt with, unless a worker whose clock was fast pushed that tick ahead.
update holdfast.schedules set caught_up_to = least(next_at - interval '1 microsecond', now());

-- Tells a lease that lies too far ahead, because the clock was put back, from a long one.
alter table holdfast.maintenance add column lease_seconds double precision;
