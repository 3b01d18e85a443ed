"""What a release folder holds beside its tables: texts made from the certificate."""
