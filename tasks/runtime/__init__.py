"""The runtime of stages: the run, its home and workspace, progress, and the stage itself."""
