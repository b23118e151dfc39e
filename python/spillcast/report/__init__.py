"""Pages for people: tables, sentences and drawings."""
