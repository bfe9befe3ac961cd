"""The documentation: pages in Markdown, and `generate`, which writes their tables."""
