"""The command `fgsv example`: complete valuations that need no data from you."""

from __future__ import annotations

from fgsv.cli import options as option
from fgsv.cli.documents import print_json, prose_aside
from fgsv.cli.sections import App
from fgsv.files import read_json, writable_folder

app = App(help="Run a complete valuation that needs no data from you.", no_args_is_help=True)


@app.callback()
def _root() -> None:
    """Require an example's name, even while there is only one."""


@app.command()
def code(
    out: option.Results,
    device: option.Device = "auto",
    precision: option.Floating = "auto",
    small: option.Small = False,
    adapters: option.Adapters = None,
    max_seconds: option.LastRound = None,
    seed: option.SeedOfModel = 0,
    as_json: option.Json = False,
) -> None:
    """Value open-source projects: minutes on a GPU.

    Values installed projects by what a small code model learns from them.

    Example: fgsv example code --out results --small
    """
    writable_folder(out)
    with prose_aside(as_json):
        from fgsv.experiments.code.experiment import run

        run(
            out,
            device=device,
            precision=precision,
            small=small,
            adapters_at_once=adapters,
            max_seconds=max_seconds,
            seed=seed,
        )
    if as_json:
        print_json(read_json(out / "shares.json"))
