"""The second tier: Python code for what runs often (lisp.tiers says when).

`compile` is the entrance: it writes the tree of nodes of a function or a loop as the text of a
Python function. `unit` holds the text while it grows; `nodes`, `numbers`, `calls`, `blocks` and
`loops` write the kinds of nodes, each kind in one place; `inplace`, `strings` and `mapping` some
builtins, `leaves` the calls of a function of itself. A kind that nobody writes is called as the
closure that it emits, and the variables it touches stay in the frame.

Hot code means what the closures mean, to the letter: values, order, fuel, limits, STATE.site, the
stack of sites, truth, redefinition. What it adds is speed:

- variables that no closure captures are Python locals; captured ones stay in the frame lists, which
  have the layout of the closures', so that hot and cold code share them;
- a path of a function that makes no calls pushes nothing on the stack of sites: what fails on it
  pushes first (`Unit.slow`);
- the turns of a loop whose body takes no fuel are counted by Python, and paid when it is left;
- variables that can only hold integers, by all that they are bound and set to, are not asked;
- a lambda expression, or a function of CL's own, that a builtin calls for each element of a list is
  written into the loop; a call of the function itself that would return at once is not made;
- strings and lists that only builtins written in place look at are Python texts and lists;
- the fuel of calls is taken from an iterator, in advance (`State.tickets`);
- exits are `return`, `break` and `continue` where control does not leave the code.

What this asks of the others: `emit` changes nothing but frames and variables, since the code of a
node may be made more than once; and a builtin that calls the program's functions reads
`function.call` each time, since hot code takes its place there.

Only text of our own making is compiled: names of variables and functions of the user's never get
into it, values come in as globals.
"""
