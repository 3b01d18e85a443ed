-- Roles of a ledger on PostgreSQL. Run once per database, as the owner of the database and of the ledger's tables
-- or a superuser, after `tabularium ledger migrate` has made them:
--
--     psql -v ON_ERROR_STOP=1 -d books -f deploy/sql/roles.sql
--
-- Then give each login the role it needs, the right to connect to this ledger's database, and nothing else:
--
--     CREATE ROLE runner LOGIN PASSWORD '…';  GRANT tabularium_writer  TO runner;
--     CREATE ROLE ito    LOGIN PASSWORD '…';  GRANT tabularium_officer TO ito;
--     CREATE ROLE audit  LOGIN PASSWORD '…';  GRANT tabularium_reader  TO audit;
--     GRANT CONNECT ON DATABASE books TO runner, ito, audit;
--
-- Roles belong to the whole server: who has one has it in every ledger there that he may connect to. So PUBLIC
-- may no longer connect here, and CONNECT is given to logins, never to the three roles. A login that has a role
-- but may not connect is named at the end, in case it should.
--
-- reader   reads every entry.
-- writer   reads, takes its turn with ledger_turn, and appends the steps of charges through ledger_append alone
--          (ledger_charge, which does both for a plain charge, has no rights of its own): no INSERT, UPDATE,
--          DELETE or TRUNCATE. The right to update the row in "locks" is what SELECT … FOR UPDATE asks for; a
--          trigger refuses any update.
-- officer  a writer who may also open and change accounts, enrol keys, approve, and void charges.
--
-- The owner of the tables should be a role that nobody logs in with from day to day. Whatever else somebody was
-- given on the tables or functions, other than to SELECT, opens the ledger read-only: REVOKE it.

DO $roles$
DECLARE
    wanted text;
    place text := pg_catalog.current_schema();
    path text := pg_catalog.current_setting('search_path');
    tables text;
    functions text;
    apart text;
    roles text := 'tabularium_reader, tabularium_writer, tabularium_officer';
BEGIN
    -- From here on no function or operator is anybody's but the server's.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    IF to_regclass(format('%I.entries', place)) IS NULL THEN
        RAISE EXCEPTION 'no ledger in schema %: run tabularium ledger migrate first', place;
    END IF;
    FOREACH wanted IN ARRAY string_to_array(roles, ', ') LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', wanted);
        END IF;
    END LOOP;

    -- Up to PostgreSQL 14 everybody could create functions and operators in the schema "public".
    EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC, %s', place, roles);
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO tabularium_reader', place);

    tables := format('%1$I.entries, %1$I.locks, %1$I.alembic_version', place);
    EXECUTE format('REVOKE ALL ON TABLE %s FROM PUBLIC, %s', tables, roles);
    functions := format('%1$I.ledger_turn(text, text, text, text, text), %1$I.ledger_append(text, text), '
        '%1$I.ledger_charge(text, text, text, text, text, text, bigint, text, text, text, numeric, numeric, '
        'text, text)', place);
    EXECUTE format('REVOKE ALL ON FUNCTION %1$s, %2$I.ledger_refuse(), %2$I.ledger_in_chain() FROM PUBLIC, %3$s',
        functions, place, roles);

    EXECUTE format('GRANT SELECT ON TABLE %s TO tabularium_reader', tables);

    GRANT tabularium_reader TO tabularium_writer;
    EXECUTE format('GRANT UPDATE (name) ON TABLE %I.locks TO tabularium_writer', place);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tabularium_writer', functions);

    GRANT tabularium_writer TO tabularium_officer;

    IF pg_has_role((SELECT datdba FROM pg_database WHERE datname = current_database()), 'USAGE') THEN
        EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC, %s', current_database(), roles);
    END IF;
    IF EXISTS (
        SELECT FROM pg_database d, aclexplode(coalesce(d.datacl, acldefault('d', d.datdba))) a
        WHERE d.datname = current_database() AND a.privilege_type = 'CONNECT'
            AND (a.grantee = 0 OR a.grantee IN (
                SELECT r.oid FROM pg_roles r WHERE r.rolname = ANY (string_to_array(roles, ', ')))))
    THEN
        RAISE WARNING 'whoever has a role of another ledger on this server may connect to this one'
            USING HINT = format('as the owner of the database run: REVOKE CONNECT ON DATABASE %I FROM PUBLIC, %s',
                current_database(), roles);
    END IF;
    SELECT string_agg(quote_ident(r.rolname), ', ' ORDER BY r.rolname) INTO apart FROM pg_roles r
        WHERE r.rolcanlogin AND NOT r.rolsuper AND pg_has_role(r.oid, 'tabularium_reader', 'MEMBER')
            AND NOT has_database_privilege(r.oid, current_database(), 'CONNECT');
    IF apart IS NOT NULL THEN
        RAISE NOTICE 'these logins have a role, but may not connect to this ledger: %', apart
            USING HINT = format('for those that should: GRANT CONNECT ON DATABASE %I TO …', current_database());
    END IF;
    PERFORM pg_catalog.set_config('search_path', path, true);
END
$roles$;
