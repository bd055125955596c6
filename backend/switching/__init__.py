"""Facts for a switch plan, read from the database and from clusters, and the plan made from them."""
