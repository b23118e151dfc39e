"""What people look at: tables and sentences for the terminal."""
