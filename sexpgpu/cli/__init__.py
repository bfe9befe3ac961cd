"""The command line: `main` and one file per verb, loaded when the verb is called."""
