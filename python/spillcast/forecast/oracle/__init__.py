"""Forecasts from Oracle's evidence: traces, and shares of ASH."""
