"""Forecasts against measured runs: ``spillcast verify``, TPC-H and the accuracy page."""
