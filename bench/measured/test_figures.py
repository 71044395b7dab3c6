"""The pure parts of `bench/run` and `bench/restraints`."""

import json
import math
import types
import unittest

from . import figures
from .figures import FIGURES, Figure
from .restraints import KINDS, statement


class Restraints(unittest.TestCase):
    def test_measure_the_statements_of_workers(self):
        for name in {"claim", *(asked for *_, asked in KINDS if asked)}:
            self.assertNotIn("\\", statement(name))


class Statistics(unittest.TestCase):
    def test_percentiles_are_values_that_were_measured(self):
        values = list(range(1, 101))
        self.assertEqual([figures.percentile(share, values) for share in (0.01, 0.5, 0.99, 1)], [1, 50, 99, 100])
        self.assertEqual(figures.percentile(0.99, [7]), 7)
        self.assertTrue(math.isnan(figures.percentile(0.5, [])))

    def test_medians_do_not_depend_on_the_order(self):
        self.assertEqual(figures.median([9, 1, 5]), 5)
        self.assertEqual(figures.median([4, 1, 3, 2]), 2.5)

    def test_a_share_has_ended_with_the_job_that_reaches_it(self):
        ends = [(2.0, 49), (1.0, 50), (9.0, 1)]
        self.assertEqual(
            figures.cumulative_times(ends, (0.5, 0.51, 0.99, 1), 100), {0.5: 1.0, 0.51: 2.0, 0.99: 2.0, 1: 9.0}
        )
        self.assertEqual(figures.cumulative_times(ends, (1,), 101), {1: None})


class Verdicts(unittest.TestCase):
    def test_at_the_bar_it_is_met(self):
        figure = Figure("a", "", "s", bar=2)
        self.assertEqual([figure.verdict({"a": value}) for value in (1, 2, 2.2, 9)], ["met", "met", "missed by 10 %", "missed: 4.5 × the bar"])

    def test_of_rates_more_is_better(self):
        figure = Figure("a", "", "/s", bar=5000, more_is_better=True)
        self.assertEqual([figure.verdict({"a": value}) for value in (5000, 4000)], ["met", "missed by 25 %"])

    def test_a_bar_goes_by_what_the_same_side_measured(self):
        figure = Figure("a", "", "µs", bar=figures.times_h2load(0.6))
        self.assertEqual(figure.verdict({"a": 1.2, "wire.h2load_us": 2.0}), "met")
        self.assertEqual(figure.verdict({"a": 1.5, "wire.h2load_us": 2.0}), "missed by 25 %")
        self.assertEqual(figure.verdict({"a": 1.5}), "")

    def test_what_was_not_measured_has_no_verdict(self):
        self.assertEqual(Figure("a", "", "s", bar=2).verdict({}), "")
        self.assertEqual(Figure("a", "", "s").verdict({"a": 1}), "")


class Derived(unittest.TestCase):
    def test_ratios_are_of_the_same_round(self):
        values = figures.derived({"campaign.seconds_100": [10.0, 30.0], "campaign.seconds_99": [8.0, 10.0]})
        self.assertEqual(values["campaign.tail"], [1.25, 3.0])

    def test_h2load_counts_by_its_cheapest_run(self):
        values = figures.derived(
            {"campaign.worker_us": [2.0], "campaign.postgres_us": [4.0], "wire.h2load_us": [6.0, 3.0]}
        )
        self.assertEqual(values["campaign.both_to_h2load"], [2.0])

    def test_the_second_side_is_compared_round_by_round(self):
        self.assertEqual(figures.round_ratios([2.0, 30.0], [4.0, 60.0]), [0.5, 0.5])


class Output(unittest.TestCase):
    def setUp(self):
        self.sides = {"before": {"import.seconds": [4.0, 6.0], "import.millions": [1, 1]}, "here": {"import.seconds": [2.0, 3.0], "import.millions": [1, 1]}}

    def test_the_table_has_both_sides_their_ratio_and_the_verdict(self):
        lines = figures.as_table(FIGURES, self.sides).splitlines()
        self.assertEqual(lines[0], "| what | unit | before | here | here / before | bar | verdict |")
        self.assertEqual(
            lines[2:],
            ["| import of the devices from CSV | s | 5.00 (4.00 to 6.00) | 2.50 (2.00 to 3.00) | 0.50 (0.50 to 0.50) | 3.00 | met |"],
        )

    def test_of_one_side_there_is_no_ratio(self):
        self.assertEqual(
            figures.as_table(FIGURES, {"here": {"campaign.tail": [1.5]}}).splitlines()[2],
            "| the time to the end over that to 99 % | × | 1.50 | 1.30 | missed by 15 % |",
        )

    def test_the_json_has_each_value_and_survives_a_round_trip(self):
        whole = json.loads(json.dumps(figures.as_json(FIGURES, self.sides, {"machine": {"cores": 2}})))
        self.assertEqual(whole["machine"], {"cores": 2})
        found = whole["figures"]["import.seconds"]["sides"]["here"]
        self.assertEqual(found, {"values": [2.0, 3.0], "median": 2.5, "bar": 3, "verdict": "met"})
        self.assertNotIn("campaign.tail", whole["figures"])

    def test_figures_say_how_many_they_are_about_and_have_no_bars_where_these_say_nothing(self):
        size = types.SimpleNamespace(few=2000, backlog=0, some=20000)
        sides = {"here": {"claim.few_us": [40.0], "singles.8.postgres_us": [900.0]}}
        quick, whole = (figures.as_table(figures.figures_of(size, is_quick), sides) for is_quick in (True, False))
        self.assertIn("| a push out of 2,000 waiting: PostgreSQL's CPU | µs | 40.0 |", quick)
        self.assertNotIn("missed", quick)
        self.assertIn("missed: 12.0 × the bar", whole)
        left_out = figures.not_measured(FIGURES, sides)
        self.assertIn("latency.beside_p50", left_out)
        self.assertNotIn("claim.few_us", left_out)

    def test_the_heading_has_machine_versions_and_commits(self):
        about = {
            "machine": {"processor": "EPYC", "cores": 2, "kernel": "6.1", "memory_gib": 24.0, "load": 0.1},
            "versions": {"postgres": "postgres (PostgreSQL) 15.18", "h2load": None},
            "commits": {"main": "abc", "here": "def-dirty"}, "quick": True, "rounds": 1,
        }
        lines = figures.as_heading(about).splitlines()
        self.assertEqual(lines[0], "EPYC, 2 cores, 24.0 GiB, Linux 6.1, load 0.1 before")
        self.assertEqual(lines[1], "postgres (PostgreSQL) 15.18")
        self.assertEqual(lines[2], "commit abc (main), def-dirty (here); rounds: 1")
        self.assertTrue(lines[3].startswith("quick: no verdicts"))
        self.assertEqual(len(figures.as_heading(about | {"quick": False}).splitlines()), 3)

    def test_each_figure_has_a_key_of_its_own(self):
        keys = [figure.key for figure in FIGURES]
        self.assertEqual(len(keys), len(set(keys)))


if __name__ == "__main__":
    unittest.main()
