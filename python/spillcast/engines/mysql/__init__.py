"""MySQL, and MariaDB which descends from it: sessions, statements, a lab."""
