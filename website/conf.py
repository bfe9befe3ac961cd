"""Sphinx's settings for the static site; `website/build.py` runs it."""

project = "sexpgpu"
author = "The sexpgpu authors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_heading_anchors = 3
html_theme = "alabaster"
html_theme_options = {
    "description": "A Common Lisp for machine learning experiments",
    "page_width": "1100px",
    "sidebar_width": "260px",
    "fixed_sidebar": True,
}
html_show_sourcelink = False
html_copy_source = False
html_title = "sexpgpu"
pygments_style = "friendly"
highlight_language = "none"
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]
