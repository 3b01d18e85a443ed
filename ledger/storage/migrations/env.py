"""Run by Alembic for `tabularium ledger migrate`, which hands over the connection it has verified.

Never run on its own: a ledger is changed only inside the transaction in which its chain was found whole.
"""

from alembic import context

connection = context.config.attributes.get("connection")
if connection is None:
    raise SystemExit("run `tabularium ledger migrate`, which verifies the chain first")

context.configure(connection=connection, transactional_ddl=True, transaction_per_migration=False)
context.run_migrations()
