"""What is written beside the tables for people and programs: report, bill of materials, registry entry."""
