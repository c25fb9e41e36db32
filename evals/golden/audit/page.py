"""An audit as one HTML page, which loads nothing from elsewhere. Pure."""

from collections.abc import Sequence
from html import escape

from evals.golden.audit.section import AuditSection
from retrievers.text.printable import printable

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem }}
h1 {{ font-size: 1.4rem; overflow-wrap: anywhere }} h2 {{ font-size: 1.1rem; margin: 2rem 0 .3rem }}
p {{ margin: .2rem 0; overflow-wrap: anywhere; white-space: pre-wrap; font-variant-numeric: tabular-nums }}
.columns {{ font-family: ui-monospace, monospace; font-size: .9em }}
.example {{ padding-left: 1.5rem; opacity: .8 }} .doubtful::after {{ content: " – look into this"; color: #b45309 }}
</style></head><body>
<h1>{title}</h1>
{sections}
</body></html>
"""


def audit_page(name: str, sections: Sequence[AuditSection]) -> str:
    """Return the page.

    Args:
        name: Name of the golden data.
        sections: The parts of the audit.
    """
    return PAGE.format(title=_text(f"Audit of {name}"), sections="\n".join(map(_section, sections)))


def _section(section: AuditSection) -> str:
    kind = ' class="doubtful"' if section.doubtful else ""
    lines = "".join(f"<p{_kind(line)}>{_text(line.strip())}</p>\n" for line in section.lines)
    return f'<section id="{section.name}"><h2{kind}>{_text(section.title)}</h2>\n{lines}</section>'


def _kind(line: str) -> str:
    if line.startswith("  "):
        return ' class="example"'
    # Columns are set apart by blanks.
    return ' class="columns"' if "  " in line else ""


def _text(text: str) -> str:
    return escape(printable(text))
