"""How runs become a verdict: gather, select, compare, audit, judge, report.

All that passes from training to here is files on disk; nothing in them is executed.
"""
