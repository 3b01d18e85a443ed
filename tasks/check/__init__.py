"""The last look before publication: what is about to be published, cell by cell."""
