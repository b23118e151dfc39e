"""MySQL, and MariaDB which descends from it: sessions, statements, moves of temp files, a lab."""
