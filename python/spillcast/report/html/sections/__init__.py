"""Sections of the page: one file for each kind of document."""
