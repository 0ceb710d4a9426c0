-- Creates the day partitions of tables that only grow.


-- name: install_make_partition
-- One day of history, attempts or the delivery log, made apart and attached. Workers may make days; only the owner lets
-- them go. Answers whether it is new; someone else's lock is waited for at most 100 ms.
create or replace function holdfast.make_partition(parent text, day date) returns boolean
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
declare
    partition text := parent || to_char(day, '_YYYYMMDD');
    key_column text := case parent
        when 'task_history' then 'finished_at'
        when 'task_attempts' then 'ended_at'
        when 'webhook_attempts' then 'at'
    end;
    starts text := quote_literal(day || ' 00:00:00+00');
    ends text := quote_literal(day + 1 || ' 00:00:00+00');
begin
    if key_column is null or day not between current_date - 400 and current_date + 400 then
        raise exception using errcode = '22023', message = format('%s has no day %s', parent, day);
    end if;
    -- An advisory lock could be held by any login.
    lock table holdfast.migrations in share row exclusive mode;
    if exists (select from pg_inherits where inhrelid = to_regclass('holdfast.' || partition)) then
        return false;
    end if;
    execute format(
        'create table if not exists holdfast.%I (like holdfast.%I including defaults including constraints, '
        'check (%I >= %s and %I < %s)) with (autovacuum_vacuum_insert_scale_factor = 0.5)',
        partition, parent, key_column, starts, key_column, ends
    );
    execute format(
        'alter table holdfast.%I attach partition holdfast.%I for values from (%s) to (%s)',
        parent, partition, starts, ends
    );
    return true;
exception
    when lock_not_available then
        return false;
end
$$;
