"""How long a run would take if its temp I/O stood on another storage."""

from spillcast.forecast.estimate import forecast
from spillcast.forecast.result import Forecast, Term, Warned

__all__ = ["Forecast", "Term", "Warned", "forecast"]
