-- Roles of a ledger on PostgreSQL. Run once per database, as the owner of the database and of the ledger's tables
-- or a superuser, after `tabularium ledger migrate` has made them. It takes CONNECT from PUBLIC: first give it to
-- every login that is to keep it, or that login is shut out from here on. That is everybody who works with this
-- ledger, whoever migrates it, the backup (pg_dump) and what watches the server; superusers and the owner of the
-- database keep it anyway. A login that loses it by this is named at the end.
--
--     GRANT CONNECT ON DATABASE books TO runner, ito, audit, backup, monitor;
--     tabularium ledger roles | psql -v ON_ERROR_STOP=1 -d books
--
-- Then give each login the role it needs, and nothing else; one that is made later needs CONNECT too:
--
--     GRANT tabularium_writer TO runner;
--     GRANT tabularium_officer TO ito;
--     GRANT tabularium_reader TO audit;
--
-- Roles belong to the whole server: who has one has it in every ledger there that he may connect to. So PUBLIC
-- may no longer connect here, and CONNECT is given to logins, never to the three roles. A login that has a role
-- but may not connect is named at the end too, in case it should.
--
-- Run it again after every migration, and after a dump was restored into a new database, where PUBLIC may connect
-- once more. Where the three roles are there already, for another ledger on the server, whoever runs it need not
-- be allowed to give them to others.
--
-- reader   reads every entry.
-- writer   reads, takes the right to append, and appends through ledger_append: drafts, and the steps of charges
--          but for voiding and withholding. Nothing else: no INSERT, UPDATE, DELETE or TRUNCATE. The right to update the row in "locks" is
--          what SELECT … FOR UPDATE asks for; a trigger refuses any update.
--          It also keeps the table of arrived drops, which is no part of the ledger.
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
    before oid[];
    lost text;
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
    functions := format('%1$I.ledger_append(text, text)',
        place);
    EXECUTE format('REVOKE ALL ON FUNCTION %1$s, %2$I.ledger_refuse(), %2$I.ledger_in_chain(),'
        ' %2$I.ledger_has_type(jsonb, text), %2$I.ledger_canonical(jsonb), %2$I.ledger_quanta(text, numeric),'
        ' %2$I.ledger_amount(numeric, numeric), %2$I.ledger_broken_rule(jsonb, text) FROM PUBLIC, %3$s',
        functions, place, roles);

    EXECUTE format('GRANT SELECT ON TABLE %s TO tabularium_reader', tables);

    -- Where they are there already, this may be somebody who could not give them.
    IF NOT pg_has_role('tabularium_writer', 'tabularium_reader', 'USAGE') THEN
        GRANT tabularium_reader TO tabularium_writer;
    END IF;
    EXECUTE format('GRANT UPDATE (name) ON TABLE %I.locks TO tabularium_writer', place);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tabularium_writer', functions);

    -- Which drops of data arrived: no entries of the ledger, and no business of anybody's but the runner's.
    IF to_regclass(format('%I.arrivals', place)) IS NOT NULL THEN
        EXECUTE format('REVOKE ALL ON TABLE %I.arrivals FROM PUBLIC, %s', place, roles);
        EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON TABLE %I.arrivals TO tabularium_writer', place);
    END IF;

    IF NOT pg_has_role('tabularium_officer', 'tabularium_writer', 'USAGE') THEN
        GRANT tabularium_writer TO tabularium_officer;
    END IF;

    before := ARRAY(SELECT r.oid FROM pg_roles r
        WHERE r.rolcanlogin AND has_database_privilege(r.oid, current_database(), 'CONNECT'));
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
    SELECT string_agg(quote_ident(r.rolname), ', ' ORDER BY r.rolname) INTO lost FROM pg_roles r
        WHERE r.oid = ANY (before) AND NOT has_database_privilege(r.oid, current_database(), 'CONNECT');
    IF lost IS NOT NULL THEN
        RAISE NOTICE 'these logins could connect to this database until now, and no longer can: %', lost
            USING HINT = format('for those that should: GRANT CONNECT ON DATABASE %I TO …', current_database());
    END IF;
    SELECT string_agg(quote_ident(r.rolname), ', ' ORDER BY r.rolname) INTO apart FROM pg_roles r
        WHERE r.rolcanlogin AND r.oid <> ALL (before) AND pg_has_role(r.oid, 'tabularium_reader', 'MEMBER')
            AND NOT has_database_privilege(r.oid, current_database(), 'CONNECT');
    IF apart IS NOT NULL THEN
        RAISE NOTICE 'these logins have a role, but may not connect to this ledger: %', apart
            USING HINT = format('for those that should: GRANT CONNECT ON DATABASE %I TO …', current_database());
    END IF;
    PERFORM pg_catalog.set_config('search_path', path, true);
END
$roles$;
