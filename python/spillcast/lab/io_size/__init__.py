"""I/O size against storage: one spill issued with each size, on a model or on a directory."""
