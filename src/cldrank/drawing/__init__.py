"""One way to draw and to write pages: a figure is described once and drawn as SVG or PNG; pages are templates."""
