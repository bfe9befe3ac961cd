"""Passes: pure functions from graph to graph, and the pipeline that runs them."""
