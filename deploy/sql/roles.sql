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
-- writer   reads, and appends the steps of charges, through ledger_append alone: no INSERT, UPDATE, DELETE or
--          TRUNCATE. The right to update the row in "locks" is what SELECT … FOR UPDATE asks for; a trigger
--          refuses any update.
-- officer  a writer who may also open and change accounts, enrol keys, approve, and void charges.
--
-- The owner of the tables should be a role that nobody logs in with from day to day.

DO $roles$
DECLARE
    wanted text;
BEGIN
    FOREACH wanted IN ARRAY ARRAY['tabularium_reader', 'tabularium_writer', 'tabularium_officer'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted) THEN
            EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', wanted);
        END IF;
    END LOOP;
END
$roles$;

REVOKE ALL ON TABLE entries, locks, alembic_version FROM PUBLIC;
REVOKE ALL ON TABLE entries, locks, alembic_version
    FROM tabularium_reader, tabularium_writer, tabularium_officer;
REVOKE ALL ON FUNCTION ledger_append(text, text) FROM PUBLIC;

GRANT SELECT ON TABLE entries, locks, alembic_version TO tabularium_reader;

GRANT tabularium_reader TO tabularium_writer;
GRANT UPDATE (name) ON TABLE locks TO tabularium_writer;
GRANT EXECUTE ON FUNCTION ledger_append(text, text) TO tabularium_writer;

GRANT tabularium_writer TO tabularium_officer;
