"""Translation of groups' commits: read them, publish progress on the map, set offsets elsewhere."""
