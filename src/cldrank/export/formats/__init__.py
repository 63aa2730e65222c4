"""The formats, one per file, called as the format is; the file of that name in `replay/` is its replay."""
