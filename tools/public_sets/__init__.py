"""Public data sets that are published in other forms than cldrank reads: one module makes the files of each."""
