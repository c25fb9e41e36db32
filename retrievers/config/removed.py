"""Settings, values, flags and subcommands that earlier versions had, each with what took its place.

Where a study of the redesign dropped something that stays, the reason is at the end of this file.
"""

import re
from collections.abc import Mapping

# A setting by its dotted name, a value as `setting=value`, a flag as `--flag`, a subcommand as `retrieval-evals NAME`.
# A metric has its name. The retriever's settings have no prefix, wherever they are written. A name covers what stood
# below it.
REMOVED: Mapping[str, str] = {
    "ragas/llm_claim_recall": "ragas/llm_context_recall is ragas' own recall, on whole results",
    "judge.stop.within": "whole queries are judged, the same beginning of their random order for every cell",
    "judge/noise_share": "judge/self_agreement is the share of its verdicts that a judge repeats (judge.rejudge)",
    "judge.recall": "context recall is asked for every distinct result; judge.sample judges fewer queries",
    "judge.recall_audit": "context recall is asked for every distinct result; judge.sample judges fewer queries",
    "judge.tiers": "judge.model judges everything, and judge.second: {model, sample} is the strong judge of a sample",
    "judge.seed": "0 is sent where the provider takes a seed; a `python:` model sets its own",
    "judge.structured": "JSON is asked for by the provider's own option, and in plain text where a server refuses",
    "judge.deadline_s": "all attempts at one verdict take at most three times judge.timeout_s",
    "judge.strict": "statements that share nothing with the reference answer are always a failure",
    "judge.identity": "the verdicts of a model whose class does not tell its parameters are not kept",
    "judge.refresh": "delete the verdict file (judge.cache_path) to ask again",
    "judge.cache": "delete the verdict file (judge.cache_path) to ask again",
    "judge.cache_max_mb": "a million verdicts take about 0.5 GB; delete the file to begin anew",
    "judge.cache_max_days": "a verdict's key holds all that it depends on, and does not age",
    "judge.budget.tokens": "judge.budget.usd, with judge.prices, and judge.budget.calls limit the spending",
    "sweep.threshold=exact": "name a range such as 0:0.95:0.05, or a list",
    "store.prefer_grpc": "requests go over HTTP, to store.url",
    "store.grpc_port": "requests go over HTTP, to store.url",
    "prefetch": "candidates is the depth of both sides of hybrid",
    "sweep.prefetch_semantic": "sweep.candidates sweeps the depth of both sides of hybrid",
    "sweep.prefetch_keyword": "sweep.candidates sweeps the depth of both sides of hybrid",
    "retrieval-evals doctor": "`inspect` lists what it checked of a collection, each fault with its remedy",
    "retrieval-evals verify": "opening a collection checks its files by size; index a damaged one again",
    "search": "search_params takes Qdrant's SearchParams, e.g. {exact: true} or {quantization: {rescore: true}}",
    **dict.fromkeys(
        (f"sweep.{a}" for a in ("exact", "hnsw_ef", "indexed_only", "ignore_quantization", "rescore", "oversampling")),
        "two runs, each with its search_params, and `evals.compare` take the place of this axis",
    ),
    "index.chunk_size": "index.max_tokens is the budget of every splitter",
    "index.chunk_overlap": "index.overlap is the overlap of every splitter",
    "index.splitter=markdown": "sections cuts at headings, recursive as LangChain does; index.max_tokens is the budget",
    "index.splitter=token": "recursive cuts to index.max_tokens tokens",
    "threshold_on=semantic": "threshold_on: each, the default: the cosine similarity of each chunk",
    "timeout_s": "store.timeout_s is that of a request to the store; a model has 30 s for one",
    "within": "filters holds for every search; a collection for each tenant holds for all else",
    "threshold=default": "there is none by default; leave it out, or write null",
    "distance": "it is the collection's own: cosine or dot",
    "keyword_weight": "the keyword side has what semantic_weight leaves",
    "include_metadata": "a result always has its metadata",
    "cache": "query vectors of hosted models are kept in the user's cache folder, results in memory until they change",
    "embedding.timeout_s": "a model has 30 s for one request",
    "cross_encoder.timeout_s": "a model has 30 s for one request",
    "embedding.max_tokens": "each provider has its own limit",
    "store.ca_file": "the environment variable SSL_CERT_FILE names the authorities that are trusted",
    "keyword.average_length": "it is measured when the collection is made",
    "keyword.term_counts": "a word counts as often as the query has it",
    "keyword.synonym_weight": "a synonym counts half",
    "keyword.expansion": "synonyms join the query's own terms",
    "sweep.term_counts": "a word counts as often as the query has it",
    "sweep.rrf_constant": "two runs, each with its rrf_constant, and `evals.compare` take the place of this axis",
    "tracking.log_cells": "at most 8 cells of a grid have runs; its table tables/grid.json and its report have all",
    "tracking.register_as": "--export FILE writes the settings, which QdrantRetriever.from_config opens",
    "retrieval-evals golden export": "golden data are JSON Lines as they are; ragas' rows: GoldenSet.to_ragas()",
    **dict.fromkeys(("--personas", "--language", "--redraws"), "`golden synthesize` writes in the passages' language"),
    "--holes": "`golden label --report REPORT` asks for what a report returned and nobody judged",
    "--verdicts": "`golden label` offers queries in the judge's order, and writes human_verdicts and evidence",
    **dict.fromkeys(("--no-browser", "--port"), "`golden label` writes a page, --out FILE.html, and serves none"),
    "retrieval-evals golden validate": "`golden check` lists every fault, and says what the data can prove",
    "retrieval-evals golden audit": "`golden check` says what the data can prove, and lists every fault",
}


def removed(name: str, value: object = None) -> str:
    """Return what took the place of a setting, flag or subcommand of an earlier version; empty for any other name.

    Args:
        name: Dotted name of a setting, with or without `retriever.`; a flag with its dashes; or the subcommand as
            `retrieval-evals COMMAND`.
        value: Its value, where the name itself is still known.
    """
    setting = name.removeprefix("--").replace("-", "_").removeprefix("retriever.")
    setting = re.sub(r"\.\d+$", "", setting)  # a value in a list
    if value is not None:
        [value] = value if isinstance(value, list) and len(value) == 1 else [value]
        known = (REMOVED.get(f"{prefix}{setting}={value}") for prefix in ("", "index."))
        return next(filter(None, known), "") if isinstance(value, str | bool) else ""
    # `retrievers index` has the settings of indexing without their prefix.
    names = [name, setting, f"index.{setting}"]
    while setting := setting.rpartition(".")[0]:
        names.append(setting)
    return next((REMOVED[known] for known in names if known in REMOVED), "")


# What stays although a study of the redesign dropped it, as the specifications ask for it: `group_by`; filters as a
# mapping, as Qdrant's JSON and as text; `sources.http`; results cached in memory; the warnings "all below the
# threshold" and "all from one file"; abbreviations and synonyms; the language note; the verdict PARTIAL_SUCCESS;
# latency at several concurrencies; concurrent searches.
