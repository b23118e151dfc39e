"""What more or less work memory would do."""
