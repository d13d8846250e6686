# SPDX-License-Identifier: Apache-2.0
"""The counting of cases on outputs of every kind, counted by eye."""
import unittest

import count_cases


def record(result, stdout):
    return {"name": "n", "result": result, "duration": 1.0, "stdout": stdout}


class Count(unittest.TestCase):
    def of(self, result, stdout):
        return count_cases.count([record(result, stdout)])[:3]

    def test_catch2(self):
        self.assertEqual(self.of("OK", "====\nAll tests passed (1234 assertions in 17 test cases)\n"), (17, 0, 0))
        self.assertEqual(self.of("OK", "All tests passed (1 assertion in 1 test case)\n"), (1, 0, 0))
        self.assertEqual(self.of("FAIL",
                                 "test cases:  5 |  3 passed | 2 failed\nassertions: 9 | 7 passed | 2 failed\n"),
                         (3, 2, 0))
        self.assertEqual(self.of("FAIL", "test cases: 2 | 2 failed\n"), (0, 2, 0))

    def test_unittest(self):
        self.assertEqual(self.of("OK", "Ran 6 tests in 0.001s\n\nOK\n"), (6, 0, 0))
        self.assertEqual(self.of("OK", "Ran 6 tests in 0.001s\n\nOK (skipped=2)\n"), (4, 0, 2))
        self.assertEqual(self.of("FAIL", "Ran 6 tests in 1s\n\nFAILED (failures=1, errors=2, skipped=1)\n"), (2, 3, 1))

    def test_rows(self):
        self.assertEqual(self.of("OK", "case a ok\n120 passed, 0 failed, 3 skipped\n"), (120, 0, 3))
        self.assertEqual(self.of("FAIL", "check: 118 passed, 2 failed\n"), (118, 2, 0))

    def test_program_without_sum(self):
        self.assertEqual(self.of("OK", "fine\n"), (1, 0, 0))
        self.assertEqual(self.of("TIMEOUT", ""), (0, 1, 0))
        self.assertEqual(self.of("SKIP", ""), (0, 0, 1))

    def test_failure_after_a_clean_sum_counts(self):
        self.assertEqual(self.of("FAIL", "All tests passed (3 assertions in 2 test cases)\n"), (2, 1, 0))


if __name__ == "__main__":
    unittest.main()
