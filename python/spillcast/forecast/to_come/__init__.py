"""What of a query that was seen in part is to come: what tells it, and what that makes of it."""
