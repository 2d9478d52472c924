"""Tables as people have them: read, described, and made into a folder of numbers."""
