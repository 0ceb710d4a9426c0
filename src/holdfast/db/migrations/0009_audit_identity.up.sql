-- The proven identity beside the name, in the audit and on plans, and an audit that only its functions write to.

-- Null in entries that are older than this migration; their hash does not cover these columns.
alter table holdfast.audit_log add column login text, add column token text, add column address text;
comment on column holdfast.audit_log.login is 'the database login that wrote the entry';
comment on column holdfast.audit_log.token is 'the token of the HTTP API, as the API says; holdfast:… for code';
comment on column holdfast.audit_log.address is 'the address of the client of the HTTP API, or that of the database connection';

-- The call stack says which function runs the statement. A setting would not do: a function may pin one of our own only
-- where a superuser has made it, and nothing here may need a superuser.
create function holdfast.refuse_direct() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
declare
    stack text;
begin
    get diagnostics stack = pg_context;
    if not exists (
        select from unnest(array['add_entries', 'seal_audit', 'prune_entries']) f
        where strpos(stack, format('PL/pgSQL function %I.%s(', tg_table_schema, f)) > 0
    ) then
        raise exception using
            errcode = '42501',
            message = format('%s is written by functions only: an entry is made with %I.note', tg_table_name, tg_table_schema);
    end if;
    return null;
end
$$;
create trigger by_functions before insert on holdfast.audit_log for each statement execute function holdfast.refuse_direct();
create trigger by_functions before insert on holdfast.audit_seals for each statement execute function holdfast.refuse_direct();
create trigger by_functions before insert on holdfast.audit_pruned for each statement execute function holdfast.refuse_direct();
create trigger by_functions before insert or update or delete or truncate on holdfast.audit_unsealed
    for each statement execute function holdfast.refuse_direct();

alter table holdfast.plans
    add column created_login text, add column created_token text, add column approved_login text, add column approved_token text,
    -- A second token, or where there is none a second login. Plans that were approved before this migration have neither.
    add constraint plans_two_identities check (
        approved_by is null or approved_login is null
        or case
            when approved_token is not null then approved_token is distinct from created_token
            -- A plan that was made with a token is approved with one: a login may belong to a process that many can use.
            else created_token is null and (approved_login <> created_login) is true
        end
    );

-- Identities are what the function finds, whatever a statement says; what was frozen stays as it was.
create function holdfast.pin_plan() returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
declare
    me record;
begin
    select i.login, i.token into me from holdfast.proven_identity() i;
    if tg_op = 'INSERT' then
        new.created_login := me.login;
        new.created_token := me.token;
        new.approved_by := null;
        new.approved_at := null;
        new.approved_login := null;
        new.approved_token := null;
        return new;
    end if;
    if (new.id, new.action, new.created_at, new.created_by, new.created_login, new.created_token, new.filter, new.items, new.set_hash, new.needs_approval)
        is distinct from
        (old.id, old.action, old.created_at, old.created_by, old.created_login, old.created_token, old.filter, old.items, old.set_hash, old.needs_approval)
        or old.approved_by is not null
        and (new.approved_by, new.approved_at, new.approved_login, new.approved_token)
            is distinct from (old.approved_by, old.approved_at, old.approved_login, old.approved_token)
    then
        raise exception using errcode = '42501', message = format('plan %s is frozen: who made and approved it, and its set, cannot be changed', old.id);
    end if;
    if old.approved_by is null and new.approved_by is not null then
        new.approved_login := me.login;
        new.approved_token := me.token;
    elsif old.approved_by is null then
        new.approved_login := null;
        new.approved_token := null;
    end if;
    return new;
end
$$;
create trigger pinned
    before insert or update of
        id, action, created_at, created_by, created_login, created_token, filter, items, set_hash, needs_approval,
        approved_by, approved_at, approved_login, approved_token
    on holdfast.plans for each row execute function holdfast.pin_plan();

-- What earlier versions granted, so that nothing is open between this migration and the new grants.
do $$
declare
    role text;
begin
    foreach role in array array['holdfast_worker', 'holdfast_api'] loop
        if exists (select from pg_roles r where r.rolname = role) then
            execute format('revoke insert on holdfast.audit_log, holdfast.audit_unsealed from %I', role);
        end if;
    end loop;
end
$$;
