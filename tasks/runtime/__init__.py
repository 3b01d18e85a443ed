"""The runtime of every stage: run, home, workspace, progress, and the stage itself."""
