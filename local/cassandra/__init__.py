"""A node of Apache Cassandra for tests and the demo, without anything on the machine."""
