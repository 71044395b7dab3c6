"""Whether each mutant still changes something, which is cheap to know; whether it is found takes an hour."""

import unittest

from .mutants import MUTANTS, ROOT, place


class MutantsTest(unittest.TestCase):
    def test_text_stands_once_in_the_source(self):
        for mutant in MUTANTS:
            with self.subTest(mutant.name):
                place(mutant, ROOT)

    def test_changes_its_text(self):
        for mutant in MUTANTS:
            self.assertNotEqual(mutant.text, mutant.other, mutant.name)


if __name__ == "__main__":
    unittest.main()
