"""Columns made from columns: several codings of one, recodes, cases of several, parts of dates."""
