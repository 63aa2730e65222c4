"""The formats, a file of its name each; the file of that name in `replay/` is its replay."""
