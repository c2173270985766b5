"""List, show and run the rows of the papers' tables: python -m lab paper list|show|run ...

    python -m lab paper list
    python -m lab paper show vivit table2
    python -m lab paper run vivit table2 --row model_3 --procs 8 --seeds 0 1 2
    python -m lab paper run vivit table2 --miniature --procs 2
    python -m lab paper run vivit table5d --start CHECKPOINT --procs 8

A row's name, such as vivit/table2/model_3, works wherever a config's name does.
"""

from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from lab.papers.rows import PublishedRow, Table, count_rows, list_rows, read_paper
from lab.papers.run_rows import run_rows
from lab.papers.runs import results
from lab.papers.summary import tabulate
from mmvidformer.config.rows import list_papers
from mmvidformer.engine.model_options import OverrideOptions
from mmvidformer.engine.options import add_options
from mmvidformer.engine.run_options import check_work_dir
from mmvidformer.engine.tables import print_table
from mmvidformer.lookup import look_up
from mmvidformer.storage.atomic import write_atomically


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read the command line."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True, help="what to do")
    listed = actions.add_parser("list", help="list the tables")
    listed.add_argument("paper", nargs="*", help="papers (default: all)")
    show = actions.add_parser("show", help="show published figures, sizes and what was measured")
    run = actions.add_parser("run", help="train and test rows; resumes where it was stopped")
    for action in (show, run):
        action.add_argument("paper", help=f"{', '.join(list_papers())}, or a file of rows")
        action.add_argument("table", help="name of a table or figure, as list prints it")
        action.add_argument(
            "--row",
            nargs="+",
            metavar="ROW",
            help="names of rows, as show prints them (default: all)",
        )
        action.add_argument(
            "--miniature", action="store_true", help="small models on generated videos, in minutes"
        )
        action.add_argument(
            "--work-dir",
            default="work_dirs/papers",
            help="folder of the runs (default: %(default)s)",
            metavar="FOLDER",
        )
    run.add_argument(
        "--procs",
        type=int,
        default=1,
        help="processes of a run; the learning rate follows their batch (default: %(default)s)",
        metavar="N",
    )
    run.add_argument(
        "--seeds",
        type=int,
        nargs="+",
        default=[0],
        help="random seeds, a run for each (default: 0)",
        metavar="N",
    )
    run.add_argument(
        "--start",
        metavar="WEIGHTS",
        help="start all rows from these weights, in place of the backbone's init_from: a file, "
        "timm:NAME, published://NAME, hf://ORG/NAME, or none (default: each row's own)",
    )
    add_options(run, OverrideOptions)
    return parser.parse_args(argv)


def list_tables(names: Sequence[str]) -> None:
    """Print a line for each table, and how many of all rows can be run."""
    names = names or list_papers()
    lines = []
    for name in names:
        for table in read_paper(name).tables.values():
            counts = map(str, astuple(count_rows(table.rows.values())))
            lines.append((*table.name.split("/"), table.title, *counts))
    print_table(("paper", "table", "title", "rows", "can be run", "in miniature"), lines)
    total = count_rows(list_rows(names))
    print(f"{total.runnable} of {total.rows} rows can be run, {total.miniatures} in miniature.")
    if {*names} <= {*list_papers()}:
        print("This project has run none of them at full size.")


def rows_of(args: Namespace, table: Table) -> list[PublishedRow]:
    """Rows that were named, or all."""
    names = [name.replace(" ", "_") for name in args.row or table.rows]
    return [look_up(table.rows, name, f"row of {table.name}") for name in names]


def folder_of(args: Namespace) -> Path:
    """Folder of the runs."""
    check_work_dir(args.work_dir)
    return Path(args.work_dir) / ("miniature" if args.miniature else "full")


def show(args: Namespace, table: Table) -> None:
    """Print a table; if something was measured, write it to ``table.csv`` and ``table.md``, too."""
    rows = rows_of(args, table)
    measured: dict[str, list] = {}
    for row in rows:
        folders = sorted((folder_of(args) / row.name).glob("seed_*"))
        measured[row.name] = list(filter(None, map(results, folders)))
    metrics = table.miniature.metrics if args.miniature and table.miniature else table.metrics
    columns, lines = tabulate(rows, measured, metrics, sizes=not args.miniature)
    file = folder_of(args) / table.name / "table.csv" if any(measured.values()) else None
    title = f"{table.name}: {table.title}"
    if args.miniature:
        title += (
            ". In miniature: small models on generated videos; published figures are not of these"
        )
    print_table(columns, lines, title, file)
    remarks = [(table.name, table.note), *((row.name, remark_of(row)) for row in rows)]
    print("\n".join(f"{name}: {text}" for name, text in remarks if text))
    if file is not None:
        cells = [columns, ["---"] * len(columns), *lines]
        text = "\n".join(f"| {' | '.join(line)} |" for line in cells)
        with write_atomically(file.with_suffix(".md")) as part:
            part.write_text(f"{title}\n\n{text}\n", encoding="utf-8")
        print(f"saved in {file} and table.md")


def remark_of(row: PublishedRow) -> str:
    """Return why a row cannot be run, or else what its settings are from."""
    if row.missing:
        return f"cannot be run: {row.missing}"
    needs = f"needs --start WEIGHTS: {row.needs_start} " if row.needs_start else ""
    return (needs + row.note).strip()


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command."""
    args = parse_args(argv)
    if args.action == "list":
        return list_tables(args.paper)
    table = look_up(read_paper(args.paper).tables, args.table, f"table of {args.paper}")
    if args.action == "run":
        run_rows(
            table,
            rows_of(args, table),
            args.seeds,
            folder_of(args),
            miniature=args.miniature,
            procs=args.procs,
            common=args.cfg_options or {},
            start=args.start,
            skip=not args.row,
        )
    show(args, table)
