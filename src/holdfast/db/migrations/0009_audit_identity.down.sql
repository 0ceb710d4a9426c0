drop trigger pinned on holdfast.plans;
drop function holdfast.pin_plan;
alter table holdfast.plans
    drop constraint plans_two_identities,
    drop column created_login, drop column created_token, drop column approved_login, drop column approved_token;
drop trigger by_functions on holdfast.audit_unsealed;
drop trigger by_functions on holdfast.audit_pruned;
drop trigger by_functions on holdfast.audit_seals;
drop trigger by_functions on holdfast.audit_log;
drop function holdfast.refuse_direct;
alter table holdfast.audit_log drop column login, drop column token, drop column address;
