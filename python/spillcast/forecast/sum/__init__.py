"""What stays, what temp I/O takes on the target, how sure the sum is, and what weakens it."""
