"""Several tables of the same records: they agree on the marginals they share.

``shared_marginals`` works out on what they must agree. ``joint_consistency`` estimates all tables together:
by an analysis of variance where variances allow it, else by ``joint_system``. ``joint_nonnegativity`` and
``joint_rounding`` then take the marginals in ``projection_schedule``.
"""
