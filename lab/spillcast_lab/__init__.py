"""Forecasts against measured runs: ``spillcast verify``, TPC-H, TPC-DS and the accuracy page."""
