-- What the roles of `holdfast migrate --grants` may do, as the catalogue has it.


-- name: privileges
-- A row for each object and role: which privileges the role was granted. A table's row stands for the whole table, and
-- privileges on some of its columns have rows of their own. Days of partitioned tables are left out: they are reached through
-- the table. The schema itself is named `own`, because installations name it as they like. No right to the schema is needed for this.
with namespace as (
    select n.oid from pg_namespace n where n.nspname = %(schema)s
), granted as (
    select 'function' as object_type, p.proname as object, a.grantee, a.privilege_type
    from namespace n
    join pg_proc p on p.pronamespace = n.oid
    cross join lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
    where a.grantee <> p.proowner
    union all
    select case c.relkind when 'S' then 'sequence' else 'table' end, c.relname, a.grantee, a.privilege_type
    from namespace n
    join pg_class c on c.relnamespace = n.oid
    cross join lateral aclexplode(c.relacl) a
    where c.relkind in ('r', 'p', 'v', 'S') and not c.relispartition and a.grantee <> c.relowner
    union all
    select 'column', c.relname || '.' || t.attname, a.grantee, a.privilege_type
    from namespace n
    join pg_class c on c.relnamespace = n.oid
    join pg_attribute t on t.attrelid = c.oid and not t.attisdropped
    cross join lateral aclexplode(t.attacl) a
    where not c.relispartition and a.grantee <> c.relowner
    union all
    select 'schema', 'own', a.grantee, a.privilege_type
    from pg_namespace s
    cross join lateral aclexplode(s.nspacl) a
    where s.nspname = %(schema)s and a.grantee <> s.nspowner
), named as (
    select
        g.object_type, g.object, case when g.grantee = 0 then 'public' else r.rolname end as role, lower(g.privilege_type) as privilege
    from granted g
    left join pg_roles r on r.oid = g.grantee
)
select n.object_type, n.object, n.role, string_agg(n.privilege, ', ' order by n.privilege)
from named n
where n.role in ('public', 'holdfast_enqueuer', 'holdfast_worker', 'holdfast_api', 'holdfast_operator')
group by n.object_type, n.object, n.role
order by n.object_type, n.object, n.role;
