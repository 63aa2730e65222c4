"""`cldrank online`: small experiments that settle what a log cannot."""

from __future__ import annotations

from cldrank.cli.commands import group_of
from cldrank.cli.online_analysis import AnalyseCommand

app = group_of("Settle by a small experiment what a log cannot tell.", AnalyseCommand)
