"""The paper's figures and ours, one module a figure, and the report.

Each module will read a stored table (paper_figures/tables, listed in manifest.json) and draw from that alone,
so that a picture never runs an experiment; filling the tables is the work of verify.
This package is at the top: it imports the other three, and none of them imports it.
"""
