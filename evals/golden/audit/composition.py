"""Golden data by type, scope and split; and how much of the collection they cover. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence

from evals.golden.audit.section import SHOWN, AuditSection
from evals.golden.case import Case
from evals.golden.evidence import Relevance
from evals.golden.synthesis.sampling import page_of
from retrievers.records import Chunk

# Below this share of out-of-scope queries, and this number of them, a threshold is hardly tested.
LEAST_OUTSIDE, FEWEST_OUTSIDE = 0.1, 10
# A type of fewer queries says little by itself.
FEWEST_OF_TYPE = 5


def composition(cases: Sequence[Case]) -> AuditSection:
    """Return the number and share of queries by type, scope and split."""
    outside = sum(not case.in_scope for case in cases)
    counts = Counter((case.query_type or "no type", case.split or "no split") for case in cases)
    splits = sorted({split for _, split in counts})
    types = Counter(case.query_type or "no type" for case in cases)
    lines = [
        f"{len(cases)} queries: {len(cases) - outside} in scope, {outside} out of scope ({outside / len(cases):.0%})"
    ]
    for name, count in types.most_common():
        by_split = ", ".join(f"{split} {counts[name, split]}" for split in splits)
        lines.append(f"{name:<14} {count:>5} ({count / len(cases):>4.0%})  {by_split}")
    few = [name for name, count in types.items() if count < FEWEST_OF_TYPE]
    if outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases)):
        lines.append("few queries are out of scope: a threshold is hardly tested")
    if few:
        lines.append(f"fewer than {FEWEST_OF_TYPE} queries: {', '.join(few)}; their means say little")
    return AuditSection(
        name="composition",
        title="Types and scope",
        lines=tuple(lines),
        figures={
            "queries": len(cases),
            "out_of_scope": outside,
            "types": dict(types),
            "by_split": {name: {split: counts[name, split] for split in splits} for name in types},
        },
        doubtful=outside < max(FEWEST_OUTSIDE, LEAST_OUTSIDE * len(cases)),
    )


def coverage(relevance: Mapping[str, Relevance], chunks: Sequence[Chunk]) -> AuditSection:
    """Return the share of the collection's pages and sections that some evidence lies in, and the pages without.

    Args:
        relevance: Case id to relevant chunks.
        chunks: All chunks of the collection.
    """
    relevant = {key for judged in relevance.values() for key in judged.grades}
    sizes = Counter(map(page_of, chunks))
    sections = {(page_of(chunk), chunk.section_path or chunk.heading or "") for chunk in chunks}
    held = [chunk for chunk in chunks if chunk.chunk_id in relevant]
    pages = {page_of(chunk) for chunk in held}
    in_sections = {(page_of(chunk), chunk.section_path or chunk.heading or "") for chunk in held}
    bare = sorted(sizes.keys() - pages, key=lambda page: (-sizes[page], page))
    shown = f": {', '.join(bare[:SHOWN])}{' …' if len(bare) > SHOWN else ''}" if bare else ""
    return AuditSection(
        name="coverage",
        title="Coverage of the collection",
        lines=(
            f"{len(pages)} of {len(sizes)} pages ({len(pages) / len(sizes):.0%}), "
            f"{len(in_sections)} of {len(sections)} sections ({len(in_sections) / len(sections):.0%}) and "
            f"{len(held)} of {len(chunks)} chunks are relevant to some query",
            f"{len(bare)} pages without, the largest first{shown}" if bare else "no page is without",
        ),
        figures={
            "pages": len(sizes), "pages_covered": len(pages), "sections": len(sections),
            "sections_covered": len(in_sections), "chunks": len(chunks), "chunks_relevant": len(held),
            "pages_without": bare,
        },
        doubtful=2 * len(pages) < len(sizes),
    )  # fmt: skip
