"""What runs left on disk, found and read, and the rules that they declared."""
