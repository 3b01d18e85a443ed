"""What every stage stands on: the run, its home and workspace, progress, and the stage itself."""
