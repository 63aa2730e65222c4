"""`python -m cldrank` is `cldrank`."""

from cldrank.cli import main

main()
