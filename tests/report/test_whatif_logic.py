"""The what-if panel's computation, run by node and compared with `Valuation.regroup` on the same data."""

import json
import shutil
import subprocess
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import fgsv
from fgsv.partition import Partition
from fgsv.report.panel import panel_of

N = 60
NAMES = ["north", "south", "<script>window.hacked = 1</script>", "__proto__"]
DRIVER = """
const whatIf = require(process.argv[1]);
const seen = (session) => {
  const [rows, grouping] = [whatIf.rows(session), session.groupings[session.groupings.length - 1]];
  const drawn = whatIf.drawn(rows).map((row) => rows.indexOf(row));
  return { rows, drawn, owner: [...grouping.owner], names: grouping.names, message: session.message };
};
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { data, steps } = JSON.parse(line);
  let session = whatIf.open(data);
  const all = [seen(session)];
  for (const [name, ...options] of steps) {
    session = ["undo", "reset", "show"].includes(name)
      ? whatIf[name](session, ...options) : whatIf.act(session, name, ...options);
    all.push(seen(session));
  }
  console.log(JSON.stringify(all));
});
"""


def node():
    """Return the path of node: the installed one, or the one that Playwright brings along."""
    found = shutil.which("node")
    if found is None:
        playwright = pytest.importorskip("playwright")
        bundled = Path(playwright.__file__).parent / "driver" / "node"
        found = str(bundled) if bundled.exists() else None
    if found is None:
        pytest.skip("node is not installed")
    return found


@pytest.fixture(scope="module")
def run():
    """Return a function that returns what the panel shows at first and after each step; one process answers all."""
    script = str(files("fgsv.report").joinpath("whatif.js"))
    pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE) | {"stderr": subprocess.STDOUT}

    def ask(valuation, steps, *, aggregate_only=False):
        panel = panel_of(valuation, 0.95, aggregate_only=aggregate_only)
        process.stdin.write(json.dumps({"data": panel.data, "steps": steps}, allow_nan=False) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        assert answer.startswith("["), answer + process.stdout.read()
        return json.loads(answer)

    with subprocess.Popen([node(), "-e", DRIVER, script], encoding="utf-8", **pipes) as process:
        yield ask
        process.stdin.close()


def assert_agrees(valuation, seen, output=0):
    """Assert that the rows are the regrouped valuation's: values and shares bit for bit, intervals up to rounding."""
    owner = np.array(seen["owner"])
    expected = valuation.regroup(Partition(tuple(seen["names"]), owner))
    column = (slice(None), output) if valuation.outputs else slice(None)
    rows = seen["rows"]
    assert [row["group"] for row in rows] == seen["names"]
    assert [row["players"] for row in rows] == np.bincount(owner, minlength=len(rows)).tolist()
    assert [row["value"] for row in rows] == expected.values[column].tolist()
    assert [row["share"] for row in rows] == expected.shares()[column].tolist()
    bounds = expected.share_interval(0.95)[column]
    found = np.array([[row["low"], row["high"]] for row in rows])
    assert (np.abs(found - bounds) <= interval_error(valuation, expected, output)[:, None] + 1e-12).all()


def interval_error(valuation, regrouped, output):
    """Return how far 16 bits can move each bound: a player's deviation is rounded by half a scale at most."""
    if valuation.exact:
        return np.zeros(regrouped.partition.n_groups)
    half_scales = np.abs(valuation.deviations[:, :, output]).max(axis=1) / 32767 / 2
    quantile = panel_of(valuation, 0.95, aggregate_only=False).data["quantile"]
    total = np.atleast_1d(valuation.total)[output]
    return quantile * regrouped.partition.sizes * np.linalg.norm(half_scales) / total


def score(masks):
    weights = np.random.default_rng(0).uniform(0.5, 1.5, masks.shape[1])
    weights[::7] *= -0.3
    return np.sqrt(1 + np.maximum(masks @ weights, -0.9))


def two_scores(masks):
    return np.stack([score(masks), masks[:, ::-1] @ np.linspace(0.1, 1.0, masks.shape[1])], axis=1)


@pytest.fixture(scope="module")
def valuation():
    return fgsv.value(score, [NAMES[i % 4] for i in range(N)], budget=1000, seed=1)


@pytest.mark.parametrize("scale", [2.0**-664, 2.0**664])
def test_the_scale_of_utilities_changes_no_interval(run, valuation, scale):
    scaled = fgsv.value(lambda masks: scale * score(masks), valuation.partition, budget=1000, seed=1)
    rows = [run(each, [])[0]["rows"] for each in (valuation, scaled)]
    plain, found = ([[row["share"], row["low"], row["high"]] for row in each] for each in rows)
    np.testing.assert_allclose(found, plain, rtol=1e-6)


@pytest.fixture(scope="module")
def of_two_outputs():
    return fgsv.value(two_scores, [NAMES[i % 4] for i in range(N)], budget=1000, seed=1)


@pytest.fixture(scope="module")
def banzhaf():
    """Return a valuation whose values do not add up to U(N) - U(0)."""
    return fgsv.value(score, [NAMES[i % 4] for i in range(N)], budget=1000, seed=1, semivalue="banzhaf")


@pytest.fixture(scope="module")
def exact():
    return fgsv.value(fgsv.games.Airport(range(1, 9)), [NAMES[i % 4] for i in range(8)])


@pytest.mark.parametrize("kind", ["valuation", "of_two_outputs", "banzhaf", "exact"])
def test_random_steps_agree_with_regroup(run, kind, request):
    valuation = request.getfixturevalue(kind)
    rng = np.random.default_rng(3)
    ways = ["first", "random", "best", "worst"]
    steps = []
    for _ in range(40):
        a, b = (int(k) for k in rng.choice(4, 2, replace=False))
        merge = ["merge", {"first": a, "second": b}]
        split = ["split", {"group": a, "parts": int(rng.integers(2, 4)), "way": str(rng.choice(ways[:3]))}]
        to = None if rng.random() < 0.3 else b
        count = int(rng.integers(1, 5))
        move = ["move", {"from": a, "to": to, "count": count, "way": str(rng.choice(ways))}]
        steps.append([merge, split, move, ["undo"]][rng.choice(4, p=[0.2, 0.35, 0.35, 0.1])])
    for output in range(len(valuation.outputs or "-")):
        seen = run(valuation, [["show", output, "one output"], *steps])
        for each in seen[1:]:
            assert_agrees(valuation, each, output)
            assert not any("undefined" in name for name in each["names"])
        assert len({tuple(each["owner"]) for each in seen}) > 15  # enough of the steps were possible


@pytest.mark.parametrize("kind", ["valuation", "of_two_outputs", "banzhaf", "exact"])
def test_everybody_merged_into_one(run, kind, request):
    valuation = request.getfixturevalue(kind)
    seen = run(valuation, [["merge", {"first": 0, "second": 1}]] * 3)
    for each in seen:
        assert_agrees(valuation, each)
    (row,) = seen[-1]["rows"]
    assert row["group"] == " + ".join(NAMES)
    if valuation.efficient:
        assert (row["value"], row["low"], row["high"]) == (np.atleast_1d(valuation.total)[0], 1, 1)
    else:
        assert row["low"] < row["share"] < row["high"]


def test_a_merge_has_both_groups_players(run, valuation):
    before, after = run(valuation, [["merge", {"first": 3, "second": 0}]])
    assert after["names"] == ["south", NAMES[2], "__proto__ + north"]
    assert after["owner"] == [2 if i % 4 in (0, 3) else i % 4 - 1 for i in range(N)]
    assert after["rows"][:2] == before["rows"][1:3]  # bit for bit
    message = "Merged __proto__ and north. The other providers' shares changed by 0.00% at most."
    assert after["message"] == message


@pytest.mark.parametrize("parts", [2, 7, 15])
@pytest.mark.parametrize("way", ["first", "random", "best"])
def test_a_split_has_parts_of_equal_size(run, valuation, way, parts):
    before, after = run(valuation, [["split", {"group": 1, "parts": parts, "way": way}]])
    assert_agrees(valuation, after)
    assert after["names"] == ["north", "south / 1", *NAMES[2:], *(f"south / {k}" for k in range(2, parts + 1))]
    positions = [1, *range(4, 3 + parts)]
    members = [np.flatnonzero(np.array(after["owner"]) == k) for k in positions]
    assert {len(part) for part in members} <= {15 // parts, -(-15 // parts)}
    assert [after["rows"][k] for k in (0, 2, 3)] == [before["rows"][k] for k in (0, 2, 3)]
    assert sum(after["rows"][k]["share"] for k in positions) == pytest.approx(before["rows"][1]["share"], abs=1e-14)
    by_value = [-valuation.player_values[part] for part in members]
    assert (in_order(members), in_order(by_value)) == (way == "first", way == "best")


def in_order(parts):
    """Say whether every number of a part is below those of the next part."""
    return all(part.max() < following.min() for part, following in pairwise(parts))


@pytest.mark.parametrize("way", ["first", "random", "best", "worst"])
@pytest.mark.parametrize("output", [0, 1])
def test_a_move_takes_the_players_asked_for(run, of_two_outputs, way, output):
    move = {"from": 0, "to": None, "count": 5, "way": way}
    _, before, after = run(of_two_outputs, [["show", output, "x"], ["move", move]])
    assert_agrees(of_two_outputs, after, output)
    assert after["names"] == [*NAMES, "new provider"]
    assert after["rows"][1:4] == before["rows"][1:4]
    own = np.arange(0, N, 4)
    by_value = own[np.argsort(of_two_outputs.player_values[own, output], kind="stable")]
    moved = set(np.flatnonzero(np.array(after["owner"]) == 4))
    asked = {"first": own[:5], "best": by_value[-5:], "worst": by_value[:5]}
    if way == "random":
        assert len(moved) == 5
        assert moved <= set(own)
        assert moved not in [set(each) for each in asked.values()]
    else:
        assert moved == set(asked[way])


def test_a_provider_whose_points_all_move_is_gone(run, valuation):
    before, after = run(valuation, [["move", {"from": 0, "to": 2, "count": 15, "way": "best"}]])
    assert after["names"] == NAMES[1:]
    assert after["owner"] == [[1, 0, 1, 2][i % 4] for i in range(N)]
    assert after["rows"][0] == before["rows"][1]
    assert_agrees(valuation, after)


def test_undo_and_reset_give_the_original_exactly(run, valuation):
    steps = [
        ["merge", {"first": 0, "second": 1}],
        ["split", {"group": 1, "parts": 3, "way": "random"}],
        ["rename", {"group": 0, "name": "west"}],
    ]
    seen = run(valuation, [*steps, ["undo"], ["undo"], ["undo"], ["undo"], *steps, ["reset"], ["undo"]])
    shown = [{key: each[key] for key in ("rows", "owner", "names")} for each in seen]
    assert shown[:4] == shown[7:11]
    assert shown[:3] == shown[6:3:-1]
    assert len({json.dumps(each) for each in shown[:4]}) == 4
    assert shown[7] == shown[11] == shown[12] == shown[0]  # there is nothing left to undo
    assert [seen[k]["message"] for k in (4, 11)] == ["Undone.", "All changes undone."]


def test_data_of_whole_groups_agree_after_merges(run, of_two_outputs):
    merge = ["merge", {"first": 1, "second": 3}]
    for output in (0, 1):
        first, shown, after = run(of_two_outputs, [["show", output, "x"], merge], aggregate_only=True)
        assert first["owner"] == [0, 1, 2, 3]
        expected = of_two_outputs.regroup([[0, 1, 2, 1][i % 4] for i in range(N)])
        assert [row["players"] for row in after["rows"]] == [15, 30, 15]
        assert [shown["rows"][k] for k in (0, 2)] == [after["rows"][k] for k in (0, 2)]
        for row, values, share, bounds in zip(
            after["rows"], expected.values, expected.shares(), expected.share_interval(0.95), strict=True
        ):
            assert row["value"] == pytest.approx(values[output], rel=1e-12)
            assert row["share"] == pytest.approx(share[output], rel=1e-12)
            assert (row["low"], row["high"]) == pytest.approx(tuple(bounds[output]), abs=1e-5)


def test_points_of_several_providers_stay_with_them(run):
    owned = np.zeros((N, 3))
    owned[np.arange(N), np.arange(N) % 3] = 0.75
    owned[np.arange(N), (np.arange(N) + 1) % 3] += 0.25
    valuation = fgsv.value(score, owned, budget=1000, seed=1)
    panel = panel_of(valuation, 0.95, aggregate_only=False)
    assert not panel.has_players
    assert panel.words.startswith("Some players belong to several providers, so ")
    _, after = run(valuation, [["merge", {"first": 0, "second": 2}]])
    expected = valuation.regroup(np.stack([owned[:, 0] + owned[:, 2], owned[:, 1]], axis=1))
    assert [row["players"] for row in after["rows"]] == pytest.approx(expected.partition.sizes.tolist())
    assert [row["value"] for row in after["rows"]] == pytest.approx(expected.values.tolist(), rel=1e-12)
    found = [[row["low"], row["high"]] for row in after["rows"]]
    assert np.array(found) == pytest.approx(expected.share_interval(0.95), abs=1e-5)


def test_providers_without_points_stay_until_they_are_merged(run, valuation):
    owner = np.arange(N) % 2 * 2
    sparse = valuation.regroup(Partition(("full", "empty", "other", "also empty"), owner))
    steps = [
        ["split", {"group": 1, "parts": 2, "way": "first"}],
        ["move", {"from": 1, "to": 0, "count": 1, "way": "first"}],
        ["split", {"group": 0, "parts": 2, "way": "first"}],
        ["merge", {"first": 1, "second": 3}],
        ["move", {"from": 2, "to": 1, "count": 4, "way": "best"}],
    ]
    seen = run(sparse, steps)
    for each in seen:
        assert_agrees(sparse, each)
    assert seen[0]["rows"][1] == {"group": "empty", "players": 0, "value": 0, "share": 0, "low": 0, "high": 0}
    assert seen[1]["message"] == "empty has 0 players and cannot be split."
    assert seen[2]["message"] == "empty has no players to move."
    assert seen[0]["rows"] == seen[1]["rows"] == seen[2]["rows"]
    assert seen[3]["names"] == ["full / 1", "empty", "other", "also empty", "full / 2"]
    assert seen[4]["names"] == ["full / 1", "empty + also empty", "other", "full / 2"]
    assert [row["players"] for row in seen[5]["rows"]] == [15, 4, 26, 15]


ODD = ["__proto__", "constructor", "<script>alert(1)</script>", "", "same", "same", "a + b", "a", "b", "é/🦔"]


def test_odd_names_are_only_names(run, valuation):
    codes = np.arange(N) % len(ODD)
    odd = valuation.regroup(Partition(tuple(ODD), codes))
    steps = [
        ["merge", {"first": 7, "second": 8}],
        ["split", {"group": 0, "parts": 2, "way": "first"}],
        ["split", {"group": 3, "parts": 2, "way": "first"}],
        ["merge", {"first": 4, "second": 5}],
        ["rename", {"group": 1, "name": "  __proto__ "}],
        ["rename", {"group": 2, "name": "hasOwnProperty"}],
    ]
    seen = run(odd, steps)
    for each in seen:
        assert_agrees(odd, each)
    assert seen[0]["names"] == ODD
    assert seen[1]["names"] == [*ODD[:7], "a + b (2)", ODD[9]]
    assert (seen[2]["names"][0], seen[2]["names"][-1]) == ("__proto__ / 1", "__proto__ / 2")
    assert (seen[3]["names"][3], seen[3]["names"][-1]) == (" / 1", " / 2")
    assert seen[4]["names"][4:6] == ["same + same", "a + b"]
    assert seen[6]["names"][1:3] == ["__proto__", "hasOwnProperty"]
    for each in seen[1:]:  # equal names are not mixed up
        assert each["message"].endswith("The other providers' shares changed by 0.00% at most.")


def test_a_name_that_a_split_would_repeat_gets_a_number(run, valuation):
    renamed = valuation.regroup(Partition(("south / 2", "south", "a", "b"), np.arange(N) % 4))
    _, after = run(renamed, [["split", {"group": 1, "parts": 3, "way": "first"}]])
    assert after["names"] == ["south / 2", "south / 1", "a", "b", "south / 2 (2)", "south / 3"]


@pytest.mark.parametrize(
    ("action", "options", "message"),
    [
        ("merge", {"first": 1, "second": 1}, "Choose two different providers to merge."),
        ("split", {"group": 1, "parts": 1, "way": "first"}, "south has 15 players: split it into 2 to 15 parts."),
        ("split", {"group": 1, "parts": 16, "way": "best"}, "south has 15 players: split it into 2 to 15 parts."),
        ("split", {"group": 1, "parts": 2.5, "way": "best"}, "south has 15 players: split it into 2 to 15 parts."),
        ("move", {"from": 0, "to": 0, "count": 1, "way": "first"}, "Choose two different providers."),
        ("move", {"from": 0, "to": 1, "count": 0, "way": "first"}, "north has 15 players: move 1 to 15 of them."),
        ("move", {"from": 0, "to": None, "count": 16, "way": "first"}, "north has 15 players: move 1 to 15 of them."),
        ("move", {"from": 0, "to": 1, "count": 1.5, "way": "first"}, "north has 15 players: move 1 to 15 of them."),
        ("rename", {"group": 0, "name": "   "}, "Enter a new name."),
        ("rename", {"group": 0, "name": " south "}, "There is already a provider named south."),
        ("rename", {"group": 0, "name": "north"}, "There is already a provider named north."),
    ],
)
def test_what_cannot_be_done_changes_nothing(run, valuation, action, options, message):
    before, after = run(valuation, [[action, options]])
    assert after == before | {"message": message}


def test_a_single_point_cannot_be_split(run, exact):
    alone = exact.regroup(["alone", *["rest"] * 7])
    seen = run(
        alone, [["split", {"group": 0, "parts": 2, "way": "first"}], ["move", {"from": 1, "to": 0, "count": 1}]]
    )
    assert seen[1]["message"] == "alone has 1 player and cannot be split."
    assert seen[2]["message"] == "Moved 1 player from rest to alone."


def test_the_chart_has_the_sixty_largest_shares_in_the_order_of_the_table(run):
    weights = np.random.default_rng(5).permutation(np.arange(-20.0, 60.0))
    valuation = fgsv.value(lambda masks: masks @ weights, [str(i) for i in range(80)], budget=400)
    (seen,) = run(valuation, [])
    largest = np.argsort(-np.abs(valuation.values), kind="stable")[:60]
    assert seen["drawn"] == sorted(largest.tolist())


@pytest.mark.parametrize("groups", [[0] * 12, [0, 1, 2] * 4])
def test_without_known_errors_there_is_no_panel(groups):
    """One group of all players has no error, but its parts would have one that is unknown."""
    result = fgsv.value(fgsv.games.SumOfUnanimity(12), groups, method="kernelshap", budget=300)
    assert result.deviations is None
    assert panel_of(result, 0.95, aggregate_only=False) is None
