"""A recorded command run again for a while, its temp files on other storage, and then ended."""
