"""Tables of more cells than are held at once: what they must be, so that everything can be done part by part.

Such a table is counted, measured and finished some nodes of its hierarchy at a time
(``docs/explanation/scale.md``). That needs noise which knows nothing of other cells, and no other table to
agree with.
"""

from __future__ import annotations

"""placeholder"""
