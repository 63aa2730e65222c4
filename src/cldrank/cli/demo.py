"""`cldrank demo`: from a click log to a ranker that ships, on synthetic data, each step a command.

The demo types its own commands: what it shows is what it runs.
"""

from __future__ import annotations

import io
import shlex
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import click

from cldrank.cli import options
from cldrank.cli.commands import declared, option
from cldrank.cli.output import console, print_line, print_title
from cldrank.errors import UsageError
from cldrank.files import make_folder, save_text

DEVICES = {"phone": 1.4, "desktop": 0.7}  # how fast examination falls: (1/position)^eta
_MARK = ".cldrank-demo"  # says that all files here are a demo's
_STOPPED = 130
_RESULTS = ("DCG@10 differs by", "Team credit per page is", "Verdict: ")  # lines that the page shows in the open


class Step(NamedTuple):
    """A step: what happens and why, its commands, and the pages that they leave."""

    title: str
    why: str
    commands: str
    pages: tuple[str, ...] = ()


# The production ranker has learned from few labels, so that both biases show; a better ranker leaves little to gain.
DEMO_STEPS = (
    Step(
        "Log",
        "What people clicked on the pages of the production ranker. Synthetic, in the shape of WEB10K: the ranker "
        "learned from 0.2% of the labels and shows its top 10; on half of the pages two neighbours change places. "
        "People examine position k with (1/k)^1.4 on a phone and with (1/k)^0.7 on a desktop; they click what is "
        "relevant, and 10% of what is not.",
        """data make web10k-like -n {queries} --seed 0 -o {out}/train.parquet
data make web10k-like -n {half} --skip {queries} --seed 0 -o {out}/test.parquet
simulate {out}/train.parquet --sessions 5e4 -k 10 --policy neighbour-swaps --eta 1.4 --fraction 0.002 \
--save-production {out}/production --seed 0 --add-column device=phone --log {out}/log/phone.parquet
simulate {out}/train.parquet --sessions 5e4 -k 10 --policy neighbour-swaps --eta 0.7 --production {out}/production \
--seed 1 --add-column device=desktop --log {out}/log/desktop.parquet""",
    ),
    Step(
        "Audit",
        "What is this log good for? Before anything is learned from it.",
        """clicks audit {out}/log/phone.parquet {out}/log/desktop.parquet --log-column surface=device \
-f {out}/train.parquet --html {out}/audit.html""",
        ("audit.html",),
    ),
    Step(
        "Propensities",
        "How likely is each position to be examined, on each device? Pages with two neighbours swapped show the same "
        "result at two positions; its clicks tell.",
        """clicks aggregate {out}/log/phone.parquet {out}/log/desktop.parquet --log-column segment=device \
-f {out}/train.parquet -o {out}/cells.parquet
propensity estimate {out}/cells.parquet -o {out}/rho.json
show {out}/rho.json --plot {out}/propensities.svg""",
        ("propensities.svg",),
    ),
    Step(
        "Training",
        "CLD-pair corrects position and selection bias at once. 30% of the queries are held out; their clicks judge.",
        """train cld-pair --model {model} -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json \
--hold-out 0.3 -o {out}/ranker""",
        ("ranker/README.md",),
    ),
    Step(
        "Verdict",
        "Is it better than production? By the clicks on queries that it was not trained on, without labels. The "
        "second command asks the labels of other queries, which only a demo has: by labels, gain is 2^label - 1, by "
        "clicks the probability of a click on what is examined, so compare changes, not values.",
        """compare {out}/ranker production -f {out}/train.parquet -c {out}/cells.parquet -p {out}/rho.json \
--html {out}/verdict.html
compare {out}/ranker {out}/production -f {out}/test.parquet -m DCG@10""",
        ("verdict.html",),
    ),
    Step(
        "Experiment",
        "A verdict from clicks rests on assumptions; people settle it. On the pages of a small test, simulated here, "
        "both rankers pick results in turn. The queries are those of the second command: do labels agree?",
        """simulate {out}/test.parquet --new {out}/ranker --production {out}/production --sessions 5e3 -k 10 --eta 1 \
--people 2000 --log {out}/experiment.parquet
online analyse {out}/experiment.parquet --planned 5000 --html {out}/experiment.html""",
        ("experiment.html",),
    ),
    Step(
        "Export",
        "The ranker for OpenSearch. A replay of the engine's arithmetic scores all test candidates; nothing is written "
        "if a score differs.",
        "export {out}/ranker --to opensearch --check {out}/test.parquet -o {out}/opensearch",
        ("opensearch/README.md",),
    ),
)
_GO_ON = """All of this every day, with two gates, on a log of your own:
$ cldrank pipeline new LOG -f FEATURES
$ cldrank pipeline run
The paper's experiments, on data of your own with labels, a folder with train.txt and test.txt:
$ cldrank experiment run table1 --data FOLDER"""


@declared
class DemoCommand:
    """From a click log to a ranker that ships, in a minute: log, audit, propensities, training, verdict, export.

    All data are synthetic. Every step shows its commands, and a page at the end leads to what they left.
    """

    out: Path = option("-o FOLDER", "Where to leave data, logs, the ranker and pages.", Path("demo"))
    queries: int = option(
        "--n-queries -n INTEGER", "How many queries to train on; half as many to test on.", 1000, min=100, max=100_000
    )

    def run(self) -> None:
        """Take all steps, in order, and write the page."""
        options.check_folder(self.out)
        _take_place(make_folder(self.out))
        make_folder(self.out / "log")
        model = "trees" if find_spec("xgboost") else "linear"
        names = {"out": shlex.quote(str(self.out)), "queries": self.queries, "half": self.queries // 2, "model": model}
        printed: dict[Step, str] = {}
        for number, step in enumerate(DEMO_STEPS, start=1):
            print_title(f"\n{number}. {step.title}")
            console.print(step.why)
            printed[step] = ""
            for command in step.commands.format(**names).splitlines():
                shown = f"$ cldrank {command}"
                console.print(f"\n{shown}", style="dim", markup=False, soft_wrap=True)
                output = typed(command)
                print_line(output)
                printed[step] += f"{shown}\n{output}\n\n"
        page = self.out / "report.html"
        save_text(page, demo_page(self.out, printed))
        print_title("\nOne page about all of it")
        print_line(f"{page.resolve()}\n\n{_GO_ON}")


def _take_place(out: Path) -> None:
    """Mark the folder as a demo's; refuse to overwrite what others left there."""
    taken = sorted(path.name for path in out.iterdir())
    if taken and _MARK not in taken:
        raise UsageError(f"{out} holds {taken[0]}, which no demo has left there; name another folder with `out`.")
    save_text(out / _MARK, "")


def typed(command: str) -> str:
    """Run a command of cldrank in this process as if it were typed; what it prints."""
    from cldrank.cli import app

    output = io.StringIO()
    with redirect_stdout(output):
        code = app(args=shlex.split(command), prog_name="cldrank", standalone_mode=False)
    if code == _STOPPED:
        raise click.exceptions.Exit(code)
    return output.getvalue().strip("\n")


def demo_page(out: Path, printed: Mapping[Step, str]) -> str:
    """The page: what each step is for, what came of it and what it printed, links to its pages, and the curves."""
    from cldrank import documents as doc
    from cldrank.propensity import Propensities, SegmentPropensities
    from cldrank.propensity.curve_document import curve_figure

    truth = {device: Propensities.load(out / "log" / f"{device}.parquet.json") for device in DEVICES}
    curves = dict(SegmentPropensities.load(out / "rho.json"))
    figure = curve_figure(curves, "Examination by position and device", truth, (440, 280))  # legible on a phone
    blocks: list[doc.Block] = []
    for step, text in printed.items():
        blocks += [doc.Heading(step.title), doc.Paragraph([step.why])]
        blocks += [doc.Panels((figure,), columns=1)] if step.title == "Propensities" else []
        results = [line for line in text.splitlines() if line.startswith(_RESULTS)]
        blocks += [doc.Paragraph([line]) for line in results]
        blocks += [doc.Paragraph([doc.Link(page, page)]) for page in step.pages]
        blocks.append(doc.Details("Commands, and what they printed", [doc.Code(text.strip(), "console")]))
    about = "What `cldrank demo` did; all data are synthetic and measure nothing of the real world."
    return doc.render_html(doc.Document("From a click log to a ranker", blocks, about))
