"""Programs whose bytes depend on when contents arrive, on simgpu with a link an eighth as fast."""

import unittest

import batch_test
import graph_test
import late_test
import order_test
import unseen_test
import word_test

LINK = {"SIMGPU_H2D_GBPS": 0.5, "SIMGPU_D2H_GBPS": 0.5}


class SlowLink:
    def run_managed(self, scenario, *arguments, **variables):
        return super().run_managed(scenario, *arguments, **{**LINK, **variables})


def load_tests(loader: unittest.TestLoader, _tests: object, _pattern: object) -> unittest.TestSuite:
    """The cases of those files, each over the slow link."""
    suite = unittest.TestSuite()
    for case in (order_test.OrderTest, order_test.PerThreadOrderTest, unseen_test.UnseenTest,
                 word_test.WordTest, late_test.LateTest, batch_test.BatchTest,
                 graph_test.GraphTest):
        slow = type(f"SlowLink{case.__name__}", (SlowLink, case), {"__module__": __name__})
        suite.addTests(loader.loadTestsFromTestCase(slow))
    return suite


if __name__ == "__main__":
    unittest.main()
