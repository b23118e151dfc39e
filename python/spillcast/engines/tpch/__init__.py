"""TPC-H on any engine: its tables made, its queries as the specification words them."""
