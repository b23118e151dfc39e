"""One self-contained page of whatever spillcast measured or forecast."""
