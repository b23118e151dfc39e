"""MySQL and MariaDB: plans with counts."""
