"""Temp files of a server that runs already to another directory, and back."""
