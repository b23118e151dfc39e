"""Charts of the page, each drawn for a width."""
