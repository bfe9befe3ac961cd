"""From an evaluated run file to the parts of its IR document: one file a kind of graph."""
