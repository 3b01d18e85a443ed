-- Roles of a ledger on PostgreSQL. Run once per database, as the owner of the ledger's tables or a superuser,
-- after `tabularium ledger migrate` has made them:
--
--     psql -v ON_ERROR_STOP=1 -d books -f deploy/sql/roles.sql
--
-- Then give each login the role it needs, and nothing else:
--
--     CREATE ROLE runner LOGIN PASSWORD '…';  GRANT tabularium_writer  TO runner;
--     CREATE ROLE ito    LOGIN PASSWORD '…';  GRANT tabularium_officer TO ito;
--     CREATE ROLE audit  LOGIN PASSWORD '…';  GRANT tabularium_reader  TO audit;
--
-- reader   reads every entry.
-- writer   reads, takes its turn with ledger_turn, and appends the steps of charges through ledger_append alone
--          (ledger_charge, which does both for a plain charge, has no rights of its own): no INSERT, UPDATE, DELETE or TRUNCATE. The right to update the row in "locks" is what
--          SELECT … FOR UPDATE asks for; a trigger refuses any update.
-- officer  a writer who may also open and change accounts, enrol keys, approve, and void charges.
--
-- The owner of the tables should be a role that nobody logs in with from day to day.

DO $roles$
DECLARE
    wanted text;
    place text := pg_catalog.current_schema();
    path text := pg_catalog.current_setting('search_path');
    tables text;
    functions text;
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
    EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC, %s', functions, roles);

    EXECUTE format('GRANT SELECT ON TABLE %s TO tabularium_reader', tables);

    GRANT tabularium_reader TO tabularium_writer;
    EXECUTE format('GRANT UPDATE (name) ON TABLE %I.locks TO tabularium_writer', place);
    EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO tabularium_writer', functions);

    GRANT tabularium_writer TO tabularium_officer;
    PERFORM pg_catalog.set_config('search_path', path, true);
END
$roles$;
