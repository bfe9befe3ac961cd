"""Compile diagnostics: the model, the catalogue of codes, and the renderers."""
