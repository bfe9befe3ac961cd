"""Where a run's numbers go besides `events.jsonl`: one file a kind of target.

A target may be slow, fail or hang: it is fed by a thread of its own, and training never waits
for it. `fan.py` has that thread; the JSONL stays the record that everything is made up from.
"""
