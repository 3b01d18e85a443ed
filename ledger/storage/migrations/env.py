"""Run by Alembic on the connection that it is handed, inside that connection's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
