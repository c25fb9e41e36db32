"""A run as one HTML page that needs nothing else: figures, tables and styles are within it."""

from evals.report.html.render import render_page as render_page
