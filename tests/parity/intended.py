"""Differences from the old tree that are wanted, each with its reason. Whoever makes one adds a line here.

- A command that ends otherwise now: `Ends("verify", code=2, line="verify went: .*--verbose", why="issue 26")`. Nothing
  else of it is compared.
- A leaf of a report, by a glob on its dotted path: `Leaf("report.json:grid.win_share*", GONE, why="…")`; `ADDED`,
  `CHANGED`, or its new path, in which each `*` stands for what it was in the old one:
  `Leaf("report.json:queries.*.first_relevant", "report.json:rows.*.first", why="…")`.
- A line of text (of a command, a page, a table) that went, came or changed: `Line("^Win shares", why="…")`, a pattern
  that is searched in old and new lines; those it finds are not compared.
- What a command is called now: `RENAMED`.
- A file that is not written any more, or is now: `File("*.parquet", why="…")`, a glob.

`only` is a glob on the names of commands. An entry that no difference needs is reported as stale.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass

GONE, ADDED, CHANGED = "(gone)", "(added)", "(changed)"


@dataclass(frozen=True)
class Ends:
    """A command, or the last of its steps that runs, ends with this exit code and a line that the pattern finds."""

    name: str
    _: KW_ONLY
    code: int
    line: str
    why: str


@dataclass(frozen=True)
class Leaf:
    """A leaf is `GONE`, `ADDED` or `CHANGED`, or has another path."""

    path: str
    to: str
    _: KW_ONLY
    why: str
    only: str = "*"


@dataclass(frozen=True)
class Line:
    """Lines of text that differ."""

    pattern: str
    _: KW_ONLY
    why: str
    only: str = "*"


@dataclass(frozen=True)
class File:
    """A file that only one of the trees writes."""

    path: str
    _: KW_ONLY
    why: str
    only: str = "*"


BISECT = "recall is asked for every distinct result"
ONCE = "what is proved is of the verdicts that the judge gave, which it may not give again"
BEGUN = "of two judges each is asked about the first query twice, the second time out of what it said"
CLAIMS = "claim recall went"
WIDTHS = "--plan foretells no widths and margins"
JUDGE = "judge.second took the place of judge.tiers; settings of the judge that nobody set went"
NOISE = "the share of the judge's noise went"
WINS = "shares of won resamples contradicted the confidence set"
SEARCH = "search_params goes to Qdrant as it is"
DRAWS = "judge.stop judges a beginning of the order of whole queries"
UNJUDGED = "the best case of unjudged chunks went: golden data that judge only some chunks are told by a note"
RISK = "the ROC curve and the wanted rates say what a threshold does; nobody read risk by coverage"
SETTINGS = "the setting went"
SHARES = "means of shares have the interval of their bounds alone, 0 and 1 however few"
BEST = "one comparison with the best: a query more, on which the leading cell loses"
USERS = "what is said of these queries and of all that users may ask is kept apart"
SIGNS = "McNemar's test is the sign flip of 0 and 1; p is the test's, at least 0.05 where the interval holds 0"
PROXY = "one proxy foretells a judge: the cheaper one, else labels, else words of the reference answer"
READS = "the next command is told"
BESIDE = "evals.run --config spec and evals.compare take the reference's place"
PASSED = "criteria of a baseline are told as such, and an incomplete run as incomplete"
BUSY = "the default experiment demands no latency"
WHOLE = "compare cuts nothing where no terminal shows it, and leaves out what is empty everywhere"
RAGAS = "ragas' own classes score what is shown, and the report says that they are equal"
FIGURES = "the page draws seven figures out of the report, with the differences by query"
SLICES = "all slices stand in one table, with interval and n, in place of two side by side"
MLFLOW = "MLflow is written from the saved report, which holds what MLflow showed and it lacked"
CELLS = "a grid's runs are its recommended cell, the best, the plain one and the front; its parameters the first one's"
TOLD = "a report holds the judge's lines, and nothing that is told elsewhere or that no surface shows"
BOTH = "the choice weighs both sides, and a table says what to take for what one can bear"
ENOUGH = "the report holds no field that nothing reads; what a metric or a row says is not said again"
SCREEN = "the first screen ends with the next command; details follow, as tables of the same cells that a page shows"
SERVED = "a search goes to the candidate depth, as the evaluation does, and shows the best below the threshold"
OWN_STORE = "a store of the user's own is searched by ours, equal scores in the order of chunk ids"
EACH = "the threshold on each chunk is called each"
CHECK = "golden check takes the place of validate and audit"
SAVED = "a saved retrieval is one file, of the pool with its labels"

# What is typed, or stands in an experiment file of the kit, to how the tree at work wants it written.
RENAMED: Mapping[str, str] = {
    "--store.path local ": "--store.path local:local ",  # a folder of local mode is opened where it is named as one
    "{path: local}": "{path: 'local:local'}",
    " --judge.stop.within false": "",
    # Out-of-scope queries had no part in the choice.
    " --sweep.threshold": " --objective.out-of-scope 0 --sweep.threshold",
    # A search takes what the collection records of the experiment that made it; before it had defaults of its own.
    "retrievers search --store.path store --collection robots": "retrievers search --store.path store "
    "--collection robots --top-k 5 --candidates 100 --threshold 0.3",
    "--store.path store --collection physical_ai_handbook": "--store.path store --collection physical_ai_handbook "
    "--mode semantic --threshold 0.3 --threshold-on each",
    "--retriever.threshold-on semantic": "--retriever.threshold-on each",
    "golden import csv ": "golden import ",
    "golden import ragas ": "golden import ",
    "golden import beir ": "golden import ",
    " --distance dot": "",
    " --retriever.distance dot": "",
    " --retriever.distance euclid": "",
    " --include-metadata true": "",
}
ENDS: Sequence[Ends] = (
    Ends("within", code=2, line="--within is gone: filters", why="filters take its place"),
    Ends("euclid", code=2, line="only cosine and dot are searched", why="cosine and dot are searched"),
    Ends("grid-exact", code=2, line="'exact' is no value any more", why="a sweep names its thresholds"),
    Ends("grid-search", code=2, line="is gone: two runs, each with its search_params", why=SEARCH),
    Ends("grid-prefetch", code=2, line="is gone: sweep.candidates", why="candidates is the depth of both sides"),
    Ends("golden-export", code=2, line="golden export is gone", why="golden data are JSON Lines as they are"),
    Ends("golden-validate", code=2, line="golden validate is gone", why=CHECK),
    Ends("golden-audit", code=2, line="golden audit is gone", why=CHECK),
    Ends("judged-grid-within", code=0, line="^Proved: semantic", why=DRAWS),
    Ends("index", code=2, line="--chunk-size is gone: index.max_tokens", why="every splitter counts tokens"),
    Ends("inspect", code=2, line="doctor is gone: `inspect`", why="inspect audits"),
    Ends("verify", code=2, line="verify is gone", why="opening checks sizes and counts"),
    Ends("grid-weights", code=2, line="--sweep.semantic-weight", why=SETTINGS),
    Ends("grid-mmr", code=2, line="--sweep.mmr-lambda", why=SETTINGS),
    Ends("grid-keywords", code=2, line="term-counts is gone", why=SETTINGS),
)
LEAVES: Sequence[Leaf] = (
    Leaf("*.json:schema_version", CHANGED, why=ENOUGH),
    Leaf("*.json:facts.collection.server.*", GONE, why=ENOUGH),
    *(
        Leaf(f"*.json:{path}", GONE, why=ENOUGH)
        for path in (
            "facts.collection_at_end*",
            "head.*",
            "facts.cases",
            "facts.judge.ragas",
            "judge.model",
            *(f"baseline.{name}" for name in ("name", "settings", "started_at", "commit")),
            "queries.*.metadata_complete",
            "queries.*.relevant_count",
            "baseline.changed*",
            "*.differences.*.verdict",
            "judge.trust.self_agreement*",
            "judge.trust.corrections*",
            "judge.trust.agreement.n_queries",
            "judge.trust.agreement.accuracy.*",
            "judge.trust.agreement.kappa.*",
            "judge.trust.agreement.false_*",
            "judge.trust.agreement.disagreements.*.verdict",
            "judge.trust.agreement.disagreements.*.kind",
            "judge.tiers.*.queries_in_all",
            "grid.abstention*",
            "grid.top_k*",
            "grid.proof*",
            "grid.choice.allowed",
            "grid.choice.proved",
            "grid.choice.reason",
            "grid.configurations.*.thresholds",
            "grid.metrics.*.scope",
            "grid.metrics.*.n_unscored*",
            "grid.metrics.*.common*",
            "grid.metrics.*.n_common",
            "grid.metrics.*.n_dropped",
        )
    ),
    Leaf("*retriever.threshold_on", CHANGED, why=EACH),
    *(
        Leaf(f"stdout of step *:{path}", to, why=SERVED, only="search*")
        for path, to in (("candidates_found", CHANGED), ("filtered_out", CHANGED), ("below_threshold*", ADDED))
    ),
    Leaf("stdout of step *:below_threshold", GONE, why=SERVED, only="search*"),
    Leaf("report.json:queries.*", CHANGED, why=OWN_STORE, only="foreign-scores"),
    Leaf("c.jsonl:*.in_scope", GONE, only="golden-import", why="a golden file leaves out what is the default"),
    *(
        Leaf(
            f"d.jsonl:*.evidence.*.{field}", CHANGED, only="golden-import", why="init and synthesize draw chunks alike"
        )
        for field in ("heading", "quote", "source_url")
    ),
    *(
        Leaf(f"*.json:criteria.*.{field}", CHANGED, only=name, why=BUSY)
        for field in ("condition", "figure", "metric", "passed", "undecided")
        for name in ("default", "compare-handbook", "grid-handbook")
    ),
    *(Leaf(f"*.json:{path}", ADDED, why=ENOUGH) for path in ("verdict", "next_flags", "baseline.about")),
    *(
        Leaf(f"*config.judge.{name}", GONE, why=JUDGE)
        for name in (
            "budget.tokens",
            "cache",
            "cache_max_days",
            "cache_max_mb",
            "deadline_s",
            "seed",
            "strict",
            "structured",
            "tiers*",
        )
    ),
    *(Leaf(f"*config.judge.second.{name}", ADDED, why=JUDGE) for name in ("model", "sample")),
    Leaf("*notes.*", CHANGED, only="judged-tiers", why=JUDGE),
    *(
        Leaf(f"*config.{name}", GONE, why=SETTINGS)
        for name in (
            "judge.recall",
            "judge.recall_audit",
            "retriever.prefetch.*",
            "retriever.store.grpc_port",
            "retriever.store.prefer_grpc",
            "retriever.timeout_s",
            "judge.stop.within",
            "retriever.within",
            "sweep.prefetch_*",
            "tracking.log_cells",
            "tracking.register_as",
            "index.chunk_size",
            "index.chunk_overlap",
        )
    ),
    *(
        Leaf(f"*config.{name}", GONE, why=SEARCH)
        for name in (
            "retriever.search.*",
            "sweep.exact",
            "sweep.hnsw_ef",
            "sweep.indexed_only",
            "sweep.ignore_quantization",
            "sweep.rescore",
            "sweep.oversampling",
        )
    ),
    Leaf("*config.retriever.search_params", ADDED, why=SEARCH),
    Leaf("*:head.index_trials", GONE, why="wider beams are not tried"),
    Leaf("report.json:config.retriever.store.path", CHANGED, only="dot", why="local mode is named as one"),
    *(Leaf(f"*.json:{path}", GONE, why=BESIDE) for path in ("reference*", "*config.reference*", "baseline.flipped*")),
    *(
        Leaf(f"*.json:{path}", GONE, why=SETTINGS)
        for path in (
            "*config.latency.warmup",
            "*config.determinism.repeats",
            "*config.tracking.traces",
            "*config.sweep.semantic_weight",
            "*config.sweep.mmr_lambda",
            "grid.configurations.*.parameters.semantic_weight",
            "grid.configurations.*.parameters.mmr_lambda",
        )
    ),
    *(Leaf(f"mlflow:*.params.{name}", GONE, why=SETTINGS) for name in ("determinism.repeats", "latency.warmup")),
    Leaf("*.json:metrics.determinism/max_score_delta.n*", CHANGED, why=SETTINGS),
    Leaf("*.json:facts.versions.*", GONE, why="libraries that are not installed are left out"),
    Leaf("*retrieved.*.claims", GONE, why=CLAIMS),
    Leaf("*below_threshold.*.claims", GONE, why=CLAIMS),
    Leaf("*queries.*.draw", GONE, why=DRAWS),
    Leaf("report.json:grid.choice.standings.*.win_share", GONE, why=WINS),
    Leaf("report.json:grid.choice.unjudged", GONE, why=UNJUDGED),
    *(
        Leaf(f"report.json:grid.choice.standings.*.{name}", GONE, why=UNJUDGED)
        for name in ("judged", "best_case", "sparsely_judged")
    ),
    *(Leaf(f"*.ci_{side}", CHANGED, why=SHARES) for side in ("low", "high")),
    *(Leaf(f"*.interval.{side}", CHANGED, why=SHARES) for side in ("low", "high")),
    *(
        Leaf(f"*metrics.content/{name}.note", CHANGED, why=SHARES)
        for name in ("overlap", "section_match", "topic_match")
    ),
    Leaf("report.json:grid.choice.standings.*.in_set", CHANGED, why=BEST),
    *(Leaf("report.json:grid.choice.set.*", to, why=BEST) for to in (ADDED, CHANGED)),
    Leaf("report.json:grid.choice.explanation.*", CHANGED, why=USERS),
    *(Leaf(f"*.{name}", CHANGED, why=SIGNS) for name in ("p", "test")),
    Leaf("*:criteria.*.reason", CHANGED, only="compare*", why=SIGNS),
    Leaf("report.json:judge.bisection", GONE, why=BISECT),
    Leaf("report.json:metrics.cost/judge_calls_saved.*", GONE, why=BISECT),
    Leaf("report.json:metrics.judge/bisection_error.*", GONE, why=BISECT),
    Leaf("report.json:headline.*", CHANGED, only="judged*", why="cost/judge_calls_saved went, the next ones moved up"),
    Leaf("report.json:judge.trust.noise_share*", GONE, why=NOISE),
    Leaf("report.json:metrics.judge/noise_share.*", GONE, why=NOISE),
    Leaf("*:ragas_check.*", ADDED, why=RAGAS),
    Leaf("report.json:judge.tiers.*.label_weights*", GONE, why=PROXY),
    *(
        Leaf(f"report.json:{name}", CHANGED, only="judged-people", why=PROXY)
        for name in ("metrics.ragas/llm_context_precision_corrected.value",)
    ),
    *(
        Leaf(f"*{name}", ADDED, why=MLFLOW)
        for name in (":texts.*", "queries.*.stages_ms.*", "retrieved.*.scores*", "best_below_threshold.*.scores*")
    ),
    Leaf("mlflow:0.params.retriever.metadata.required", ADDED, only="tracked", why=MLFLOW),
    *(Leaf("mlflow:*", to, only="tracked-grid", why=CELLS) for to in (ADDED, CHANGED, GONE)),
    Leaf("*config.objective.out_of_scope", ADDED, why=BOTH),
    Leaf("*config.objective.wrong_answers.*", ADDED, why=BOTH),
    Leaf("*:notes.*", ADDED, only="*grid*", why=BOTH),
    *(Leaf("report.json:grid.*", to, only="grid-handbook", why="criteria restrict") for to in (ADDED, CHANGED, GONE)),
    Leaf("*config.threshold.false_answer", ADDED, why="a threshold that promises a rate of wrong answers"),
    Leaf("saved/manifest.json:*", GONE, why=SAVED),
    *(Leaf("*:facts.saved_retrieval*", to, why=SAVED) for to in (ADDED, GONE)),
    Leaf("report.json:facts.collection_changed", GONE, only="saved-retrieval", why="such a run looks at none"),
    *(
        Leaf(f"*config.{name}", GONE, why=SETTINGS)
        for name in (
            "retriever.distance",
            "retriever.keyword_weight",
            "retriever.include_metadata",
            "retriever.cache*",
            "retriever.store.ca_file",
            "retriever.keyword.average_length",
            "retriever.keyword.term_counts",
            "retriever.keyword.synonym_weight",
            "retriever.keyword.expansion",
            "retriever.rrf_constant",
            "retriever.*.api_key_env",
            "retriever.embedding.timeout_s",
            "retriever.embedding.max_tokens",
            "retriever.cross_encoder.timeout_s",
            "judge.identity",
            "judge.refresh",
            "sweep.term_counts*",
            "sweep.rrf_constant*",
        )
    ),
    *(
        Leaf(f"report.json:{name}", CHANGED, only="judged-tiers", why=BEGUN)
        for name in (
            "judge.usage.hits",
            "metrics.cost/judge_cache_hits.value",
        )
    ),
    *(
        Leaf(f"*.json:{path}", GONE, why=TOLD)
        for path in (
            "caches*",
            "grid.notes*",
            "judge.tiers*",
            "queries.*.relevant_complete",
            "validation.*latency_ms",
            "*.differences.*.p_adjusted",
            "*.sampled.alone*",
            "judge.sample.queries",
            *(f"grid.choice.{name}" for name in ("objective", "n", "dropped", "queries_needed")),
            *(f"grid.choice.standings.*.{name}" for name in ("label", "cost", "difference", "lower")),
        )
    ),
    *(Leaf(f"report.json:ragas_check.{name}*", GONE, why=TOLD) for name in ("differing", "n_differing", "reason")),
    *(
        Leaf(
            f"*comparisons.*.moved.*.{name}*",
            GONE,
            only="compare",
            why="a reader finds the query in both reports by its id",
        )
        for name in ("baseline", "other", "query", "in_scope")
    ),
    *(
        Leaf(f"*grid.configurations.*.parameters.{name}", GONE, why=SETTINGS)
        for name in ("term_counts", "rrf_constant")
    ),
    *(
        Leaf(f"*config.retriever.{name}", GONE, why=SETTINGS)
        for name in (
            "embedding.timeout_s",
            "embedding.max_tokens",
            "cross_encoder.timeout_s",
            "*.api_key_env",
            "rrf_constant",
        )
    ),
)
LINES: Sequence[Line] = (
    Line(
        r"^Details$|^metric value 95% interval n criterion|by query type|^type value 95%|^Before → after|^before: "
        r"|^metric before after|^\d+ ?/ ?\d+ ?/ ?\d+$|wins / ties / losses",
        why=SCREEN,
    ),
    Line(r"^[a-z]+/\w+( [\d.,–]|: )", only="foreign*", why=SCREEN),
    Line(r"^[a-z]+/\w+( [\d.,–]|: )", only="judged-*", why=SCREEN),
    Line(r"^scope/max_out_of_scope_score ", only="spec", why=SCREEN),
    Line(
        r"labelled (not )?relevant, judged|^The context is of no use|^query chunk labelled|relevant use(less|ful) ",
        only="judged-*",
        why=SCREEN,
    ),
    Line(r"^scope/(auroc|max_out_of_scope_score) ", only="default", why=SCREEN),
    Line(r"^\d+ (semantic|keyword|hybrid)\b|retrieval top_k|^[a-z]+[_/][\w/ ]*$", only="*grid*", why=SCREEN),
    Line(r"^(baseline TREE|BOX/a.json)", only="compare-handbook", why=SCREEN),
    *(
        Line(r"returned of \d+ found|candidates are below the threshold", why=SERVED, only=name)
        for name in ("search*", "filters")
    ),
    Line(r"^2\. cosine 0\.304 /docs/ros/", why=OWN_STORE, only="foreign-scores"),
    Line(r"^c\.jsonl: 2 cases|relevant_ids must equal|^d\.jsonl: 14 skel", only="golden-import", why=CHECK),
    Line(r"judge\.tiers|judge\.second|judged metrics are corrected by", only="judged-tiers", why=JUDGE),
    Line(r"^collection(_at_end)?\.|^\[&#39;", why=ENOUGH),
    Line(
        r"^\s*(chunk_size|chunk_overlap|seed|structured|deadline_s|cache|cache_max_mb|cache_max_days|tiers|strict|tokens"
        r"|second|sample):",
        why=SETTINGS,
    ),
    Line(r"^(2 cases with )?2 relevant documents, 1 judged", only="golden-import", why=CHECK),
    Line(r"^latency/", only="keyword-deep", why=SCREEN),
    Line(r"^beacons:make$", only="grid-beacons", why=ENOUGH),
    Line(r"^Next: |threshold_on", why=READS),
    Line(r"^ *model: (null|rerank-v3\.5|l2_supercat_256)$", why="an exported retriever names its models"),
    *(
        Line(
            r"criteria (are|were) (not )?met|all criteria met|[Nn]o worse|Worse than|the baseline in \d"
            r"|No criteria to meet|Incomplete: |^is spent\.|\d+ of \d+ queries pass",
            only=name,
            why=PASSED,
        )
        for name in ("default", "compare-handbook", "judged-budget")
    ),
    Line(r"^latency/$|^total_p\w+_ms$|latency/total_p|^&lt; 1000000$|^pass$", only="default", why=BUSY),
    Line(r"^\d\. [-\d.–]+ .*\d\. [-\d.–]+ | – – – – – – – –$| N N N N N N N N$", only="compare*", why=WHOLE),
    Line(r"^people: 18 of 40 queries", only="judged-people", why=PROXY),
    Line(r"^ragas [\d.]+: equal \(", why=RAGAS),
    Line(r"^(- )?(out_of_scope|wrong_answers):", why=BOTH),
    *(
        Line(
            r"^(Note: )?objective.out_of_scope is|^Which threshold|\d+ in scope, \d+ out of scope|^wrong(ly)? "
            r"|^any( |$)|^at most \d+%|^★ |^k\d+( |$)|^[\d.]+%? \([\d.]+…[\d.]+\)$|^\d+ of \d+$|^none \(least|^–$"
            r"|^(tokens|passes|take|[\d,]+)$|^Best from weight|out-of-scope queries cannot|silent, could"
            r"|^(weighted, )?top_k \d+(,| …)|^- 0\.|^Promised |takes \d+ out-of-scope|promises at most"
            r"|threshold [\d.]+ answers|gives up|^\([\d.]+…[\d.]+\)$|^\(least",
            only=name,
            why=BOTH,
        )
        for name in ("*grid*", "saved-retrieval")
    ),
    Line(r"where |cells are not|^ *\d* ?(semantic|keyword|hybrid)|^retrieval|ranking/", only="grid-handbook", why=BOTH),
    Line(r"✓ may be the best", why="the line on the recommendation says how sure that is"),
    Line(r"^\s*(prefer_grpc|grpc_port|prefetch\w*|recall|recall_audit|register_as|within|log_cells):?", why=SETTINGS),
    Line(r"^MLflow: ", only="tracked*", why="the command that shows the runs works wherever they are"),
    Line(r"^\s*(keyword|semantic): null", why=SETTINGS),
    Line(r"^\s*timeout_s: 30\.0$", why=SETTINGS),
    Line(r"^\s*(search|search_params|quantization|exact|hnsw_ef|ignore|ignore_quantization|indexed_only):", why=SEARCH),
    Line(r"^\s*(oversampling|rescore):", why=SEARCH),
    Line(r"^wins$|resamples|where the best cell leads again|rare losses|^show$", why=WINS),
    *(
        Line(r"tokens; |may be the best|^best \(|^the best \(|^\(95%\)|… [\d.]+\) · ", only=name, why=WINS)
        for name in ("*grid*", "saved-retrieval")
    ),
    *(
        Line(
            r"Unjudged chunks|recommended one$|^(the )?recommended cell's; with|cells'?$|others counted as relevant",
            only=name,
            why=UNJUDGED,
        )
        for name in ("*grid*", "saved-retrieval")
    ),
    Line(r"\d … [-+]?[\d,.]+|ranking/ndcg_at_10 [\d.]+ \(", why=SHARES),
    Line(r"^Reason: |^(- )?Best |that users may ask", why=USERS),
    Line(
        r"cheaper|^it by 0.02|0.02 or more|scored the same so far|least strict|^apart; |lowest cost",
        only="*grid*",
        why=USERS,
    ),
    Line(r"cheaper|^it by 0.02|0.02 or more", only="saved-retrieval", why=USERS),
    Line(
        r"p [\d.]+ by Holm|Holm: p adjusted|excludes 0; |^Difference: other|by which better|^better and worse"
        r"|^decided\. Without|^draws\) and |^statistics of the|^the whole run, which"
        r"|^which are not paired|^by query and",
        only="compare*",
        why=SIGNS,
    ),
    Line(r"^(ragas|ranking)/ |^retrieval top_k", only="saved-retrieval", why="textwrap breaks the names of metrics"),
    Line(r"^From caches: |calls, \d+ cached|^The judged sample is|^all have without|^Not everything was", why=TOLD),
    Line(r"judging all would|^(give |[\d.]+ )*[… \d.]*\(95%\)$", only="judged-*", why=TOLD),
    Line(r"\(kappa [\d.]+\)|^[\d.]+\)$|^ragas/llm_context_relevance, 1.00 in", only="judged-*", why=TOLD),
    Line(r"a falling line to the left", why=RISK),
    Line(r"Expected of|proved within|^ *(queries +share|context)", only="judged-plan", why=WIDTHS),
    Line(r"^ *[\d.]+ +\d+%? +\d+|judge and golden labels agree", only="judged-plan", why=WIDTHS),
    *(
        entry
        for name in ("default", "grid-beacons")
        for entry in (
            Line(
                r" in every cell of |^Every cell|^(A|Each) (tick|point|bar) |^The (less|blue) ", why=FIGURES, only=name
            ),
            Line(r"^Along each line|^How many more would|^Boxes |^Figures$|^What quality", why=FIGURES, only=name),
            Line(r"^(Where the first|Before threshold)|worse than the reference$", why=FIGURES, only=name),
            Line(r"^best (score|cosine)$", why="best scores may be dot products", only=name),
            Line(
                r"\((type|tag), \d+ queries\)$|^The queries of two slices|^Means with their|^[\d.]+ \(.*\), n \d+$",
                why=SLICES,
                only=name,
            ),
            Line(r"^(95% interval|[\w-]+/|(\w+/)?[\w-]+)$", why=SLICES, only=name),
        )
    ),
    Line(
        r"^(At the .* cell|Along (the threshold|top_k)$|What changes with|weight of|Pin this|Link to this|Ends are)"
        r"|^(queries (that pass|whose)|all queries$|passes now$|fails now$)|^Metrics by ",
        why=FIGURES,
        only="grid-beacons",
    ),
    Line(r"^(flipped: |before +[1n]|after +[1n\d])|before and after|^\s*(reference:|determinism:)", why=BESIDE),
    Line(r"^\s*(warmup|repeats|traces|semantic_weight|mmr_lambda|determinism): ?", why=SETTINGS),
    Line(
        r"further searches to measure|chosen variant|^Tokens in are|^The table counts|^Counted are|^judge.stop ends|"
        r"^Judging ends|^answers\.|the model's own|^s\.$|^takes TIME|Cost: |held-out queries too|run would stop|"
        r"which these lines",
        only="*plan*",
        why="--plan says less",
    ),
    Line(r"^(threshold:|false_answer: null)$", why="a threshold that promises a rate of wrong answers"),
    Line(
        r"^faulty.jsonl:[23]: |^error: [23] faults in the golden data",
        only="refused",
        why="an empty field is a missing one, and a grade may stand in a row, as a table has them",
    ),
    Line(
        r"^\s*(distance|keyword_weight|include_metadata|cache|embeddings|path|ttl_s|results\w*|ca_file|average_length|"
        r"term_counts|synonym_weight|expansion|timeout_s|max_tokens|identity|refresh|rrf_constant):",
        why=SETTINGS,
    ),
    Line(
        r"^\d contexts: |^3 passages: |not found \(most alike|were left out, since|left out, as none of",
        why="an import says how many passages were found in which way, and which cases it leaves out",
        only="golden-import",
    ),
    Line(r"by all verdicts (on|of)|asked once|bring that to( about|$)|^about [\d.]+$", why=ONCE, only="judged-grid-*"),
    Line(r"^versions\.[\w-]+$|^not installed$", why="libraries that are not installed are left out"),
    Line(
        r"^(index:|retriever:|collection: .*_spec|context: none|merge_small: false|mode: semantic|top_k: 5)$|: 0.3$",
        only="default",
        why=BESIDE,
    ),
)
WENT = re.compile(r"(?<=[★✓])\?(?= |$)|^\?$| \?(?= )")
"""What went out of the midst of old lines: the mark of a cell whose chunks were sparsely judged."""
FILES: Sequence[File] = (
    File("*figures/*.svg", why=FIGURES),
    *(File(f"mlruns/*/{name}", why=MLFLOW) for name in ("tables/*", "settings.yaml", "experiment.yaml")),
    *(File(f"mlruns/*/{name}.json", why=MLFLOW) for name in ("facts", "grid", "metrics", "queries")),
    File("saved/*", why=SAVED),
    File("saved", why=SAVED),
)
