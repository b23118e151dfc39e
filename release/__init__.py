"""Artifacts for other machines: wheels, the recorder, the bundle, and the checks of each."""
