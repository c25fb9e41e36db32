"""The commands whose answers the old tree and the tree at work must share.

`run`, `compare`, `golden` and `retrievers` stand for `python -m evals.run` and so on. The steps of a command run one
after the other in one folder, which begins as a copy of its world. `{cohere}` and `{openai}` are the flags of a judge
behind a server of the kit, `{cohere_url}` its address.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command, or several in one folder.

    Attributes:
        name: What `--only` and the intended differences call it.
        world: From what it starts.
        steps: What is typed.
        goes: The capability that it shows, where that will be deleted: then an entry of `ENDS` tells its end.
    """

    name: str
    world: str
    steps: Sequence[str]
    goes: str = ""


WORLDS: Mapping[str, Sequence[str]] = {
    "small": ("run --config small.yaml --limit 1 --no-gate --quiet --output prepared.json", "mine.py"),
    "beacons": (
        "retrievers index pages.jsonl --context none --store.path store --collection pages --embedding.provider python "
        "--embedding.model beacons:make",
    ),
    "handbook": (
        "run --limit 2 --no-gate --quiet --retriever.store.path store --tracking.enabled false --output prepared.json",
    ),
    "cranfield": ("retrievers index pages.jsonl --context none --store.path store --collection cranfield",),
}
"""From what commands start: the folder of that name in `data`, then these."""
SMALL = "run --config small.yaml --no-gate --output report.json"
BEACONS = "run --config beacons.yaml --no-gate --output report.json"
HANDBOOK = (
    "run --retriever.store.path store --tracking.enabled false --no-gate --output report.json --criteria "
    '\'{latency/total_p95_ms: "< 1000000", ranking/hit_rate_at_5: ">= 0.6"}\''
)
GRID = "--metrics ranking/*,scope/*,ragas/id_* --sweep.top-k 1:6 --sweep.threshold 0:0.75:0.125"
JUDGED = f"{BEACONS} --metrics ragas/llm_*,judge/*,cost/*,ranking/ndcg_at_5"
JUDGED_GRID = (
    f"{BEACONS} --metrics ragas/llm_context_precision,ragas/llm_context_recall,ranking/ndcg_at_10 --sweep.top-k 1:5 "
    "--sweep.threshold 0.25,0.5,0.625 --objective.metrics ragas/llm_context_precision"
)
RECALL = ",ragas/llm_context_recall"
SEARCH = 'retrievers search "keep a robot from tipping over" --store.path store --collection physical_ai_handbook'
MINE = "retrievers search --store.path store --collection robots"
OWN = "run --config local.yaml --no-gate --output report.json"


def _one(name: str, world: str, *steps: str, goes: str = "") -> Command:
    return Command(name=name, world=world, steps=steps, goes=goes)


MODES = [
    *(f"semantic {rerank}" for rerank in ("none", "mmr", "cross-encoder")),
    *(f"keyword {rerank}" for rerank in ("none", "mmr", "cross-encoder")),
    *(f"hybrid {rerank} {fusion}" for fusion in ("weighted", "rrf", "dbsf") for rerank in ("none", "mmr")),
    "hybrid cross-encoder weighted",
    "hybrid rrf rrf",
]
CRANFIELD = "run --config cranfield.yaml --no-gate --output report.json"
CROSS = "--retriever.cross-encoder.provider cohere --retriever.cross-encoder.base-url {cohere_url}"


def _mode(words: str) -> Command:
    mode, rerank, *fusion = words.split()
    flags = f"--retriever.mode {mode} --retriever.rerank {rerank}" + "".join(f" --retriever.fusion {f}" for f in fusion)
    cross = f" {CROSS} --retriever.cross-encoder.model rerank-v3.5" if rerank == "cross-encoder" else ""
    return _one(f"mode-{words.replace(' ', '-')}", "small", f"{SMALL} {flags}{cross}")


COMMANDS: Sequence[Command] = (
    # One run
    _one("default", "handbook", HANDBOOK.replace(" --no-gate", "") + " --html report.html --junit junit.xml --verbose"),
    _one("spec", "handbook", f"{HANDBOOK} --config spec --export retriever.yaml"),
    _one("small", "small", SMALL),
    _one("beacons", "beacons", BEACONS),
    *map(_mode, MODES),
    _one(
        "threshold-on",
        "beacons",
        *(f"{BEACONS} --retriever.mode hybrid --retriever.threshold-on {on}" for on in ("best", "final", "semantic")),
    ),
    _one("keyword-deep", "beacons", f"{BEACONS} --retriever.mode keyword --retriever.top-k 6"),
    _one("group-by", "small", f"{SMALL} --retriever.group-by source_url --retriever.threshold 0.1"),
    _one(
        "filters",
        "small",
        f'{SMALL} --retriever.mode hybrid --retriever.filters "tags contains arms and not title = Safety"',
        f"{MINE} 'stop the arm' --filters 'not source_url contains ros or tags in [calls, safety]' --threshold 0",
    ),
    _one(
        "synonyms", "small", SMALL + " --retriever.mode keyword --retriever.keyword.synonyms '{halt: [stop, brakes]}'"
    ),
    _one(
        "within",
        "small",
        "retrievers search 'reliable publisher' --store.path local --collection dot --distance dot --threshold 0 "
        "--json --embedding.provider python --embedding.model mine:model --within 'tenant = odd'",
        goes="within",
    ),
    _one("dot", "small", f"{OWN} --retriever.collection dot --retriever.distance dot --retriever.threshold 2"),
    _one(
        "euclid",
        "small",
        f"{OWN} --retriever.collection euclid --retriever.distance euclid --retriever.threshold 5",
        goes="distances but cosine and dot",
    ),
    _one("foreign", "small", "run --config foreign.yaml --no-gate --output report.json"),
    _one(
        "foreign-scores",
        "small",
        "run --config foreign.yaml --no-gate --output report.json --retriever.python "
        "mine:vector_store --retriever.threshold 0.3 --sources.dir docs",
    ),
    _one(
        "criteria",
        "small",
        "run --config small.yaml --output report.json --junit junit.xml --criteria "
        '\'{ranking/hit_rate_at_3: ">= 0.95", scope/false_answer: "<= 0.4", metadata/completeness: "== 1"}\'',
    ),
    _one(
        "saved-retrieval",
        "small",
        f"{SMALL} --save-retrieval saved --sweep.mode semantic,hybrid --sweep.top-k 2,3",
        f"{SMALL} --from-retrieval saved --retriever.mode hybrid --retriever.threshold 0.4",
    ),
    _one(
        "refused",
        "small",
        f"{SMALL} --retriever.collection robot",
        f"{SMALL} --retriever.top-k 20",
        f"{SMALL} --dataset.path faulty.jsonl",
        f"{SMALL} --retriever.mood hybrid",
    ),
    _one("plan", "handbook", f"{HANDBOOK} --plan", f"{HANDBOOK} --plan --sweep.mode semantic,hybrid --sweep.top-k 1:5"),
    # Grids
    _one(
        "grid-handbook",
        "handbook",
        HANDBOOK + " --dataset.split dev --metrics ranking/*,scope/* --sweep.mode "
        "semantic,keyword,hybrid --sweep.rerank none,mmr --sweep.top-k 3,5,10 --sweep.threshold 0.1:0.5:0.1 "
        "--objective.metrics ranking/recall_at_10 --objective.constraints 'scope/false_answer <= 0.5'",
    ),
    _one("grid-beacons", "beacons", f"{BEACONS} {GRID} --html report.html"),
    _one("grid-fusions", "beacons", f"{BEACONS} {GRID} --sweep.mode semantic,hybrid --sweep.fusion weighted,rrf,dbsf"),
    _one(
        "grid-weights",
        "small",
        f"{SMALL} --sweep.mode hybrid --sweep.fusion weighted,rrf --sweep.semantic-weight "
        "0.3,0.7 --sweep.rrf-constant 10,60 --sweep.top-k 1,3",
    ),
    _one(
        "grid-mmr",
        "small",
        f"{SMALL} --retriever.rerank mmr --sweep.mmr-lambda 0.3,0.7 --sweep.candidates 6,12 --sweep.top-k 1,3",
    ),
    _one(
        "grid-keywords",
        "small",
        f"{SMALL} --sweep.mode keyword,semantic --sweep.term-counts true,false --sweep.top-k 3",
    ),
    _one(
        "grid-objectives",
        "beacons",
        f"{BEACONS} {GRID} --objective.metrics 'ranking/ndcg_at_5, ranking/mrr_at_5' "
        "--objective.constraints 'scope/false_answer <= 0.5, ranking/recall_at_5 >= 0.2' --dataset.split dev",
    ),
    _one("grid-best", "beacons", f"{BEACONS} {GRID} --retriever.threshold-on best --retriever.mode hybrid"),
    _one(
        "grid-exact",
        "beacons",
        f"{BEACONS} --metrics ranking/*,scope/* --sweep.threshold exact --sweep.top-k 3",
        goes="threshold: exact",
    ),
    _one(
        "grid-search",
        "small",
        f"{SMALL} --sweep.exact true,false --sweep.hnsw-ef 16,64 --sweep.top-k 3",
        goes="quantisation and index axes of the search",
    ),
    _one(
        "grid-prefetch",
        "small",
        f"{SMALL} --retriever.mode hybrid --sweep.prefetch-semantic 4,12 --sweep.top-k 3",
        goes="prefetch",
    ),
    # Judged
    _one(
        "judged-openai", "beacons", f"{JUDGED} {{openai}} --judge.rejudge 8", f"{JUDGED} {{openai}} --retriever.top-k 5"
    ),
    _one("judged-cohere", "beacons", f"{JUDGED} {{cohere}}"),
    _one("judged-sample", "beacons", f"{JUDGED} {{openai}} --judge.sample 18"),
    _one("judged-auto", "beacons", f"{JUDGED} {{openai}} --judge.sample auto --judge.max-concurrency 1"),
    _one("judged-budget", "beacons", f"{JUDGED} {{cohere}} --judge.budget.calls 60 --judge.max-concurrency 1"),
    _one("judged-people", "beacons", f"{JUDGED} {{openai}} --dataset.path humans.jsonl --retriever.threshold 0.25"),
    _one("judged-plan", "beacons", f"{JUDGED} {{openai}} --plan", f"{JUDGED_GRID} {{openai}} --plan"),
    _one("judged-grid", "beacons", f"{JUDGED_GRID} {{cohere}}"),
    _one("judged-grid-sample", "beacons", f"{JUDGED_GRID} {{openai}} --judge.sample 20"),
    _one(
        "judged-grid-stop",
        "beacons",
        f"{JUDGED_GRID} {{openai}} --judge.stop.margin 0.1 --judge.stop.within false --judge.max-concurrency 1",
    ),
    _one(
        "judged-grid-within",
        "beacons",
        f"{JUDGED_GRID} {{openai}} --judge.stop.margin 0.1 --judge.max-concurrency 1".replace(RECALL, ""),
        goes="drawing within queries",
    ),
    _one(
        "judged-tiers",
        "beacons",
        f"{JUDGED} --judge.base-url {{openai_url}} --judge.cache-path verdicts.sqlite --judge.model openai:small "
        "--judge.second.model openai:command-a-03-2025 --judge.second.sample 20",
    ),
    # Runs compared
    _one(
        "compare",
        "beacons",
        BEACONS.replace("report", "a"),
        BEACONS.replace("report", "b") + " --retriever.mode hybrid",
        BEACONS.replace("report", "c") + " --dataset.limit 30 --retriever.top-k 2",
        "compare a.json b.json --output comparison.json",
        "compare a.json b.json --verbose --queries 3",
        "compare a.json c.json --common --fail-on-regression ranking/recall_at_3:0.02",
        "compare a.json c.json",
        "compare b.json a.json --json --metrics ranking/*,candidates/*",
    ),
    _one(
        "compare-handbook",
        "handbook",
        HANDBOOK.replace("report", "a") + " --limit 40",
        HANDBOOK.replace("report", "b") + " --limit 40 --retriever.rerank mmr --baseline a.json",
        "compare a.json b.json",
    ),
    # Golden data
    _one(
        "golden-validate",
        "small",
        "golden validate golden.jsonl --docs docs",
        "golden validate faulty.jsonl",
        "golden validate golden.jsonl --store.path store --collection robots",
    ),
    _one(
        "golden-audit",
        "small",
        f"{SMALL} --retriever.threshold 0.6",
        "golden audit golden.jsonl --docs docs --report report.json",
        "golden audit golden.jsonl --docs docs --json",
    ),
    _one(
        "golden-import",
        "small",
        "golden import csv table.csv -o a.jsonl --column query=question --column "
        "reference_answer=answer --column source_url=page --column id=name",
        "golden import ragas ragas.jsonl -o b.jsonl --docs docs",
        "golden import beir beir --out c.jsonl",
        "golden init --out d.jsonl --store.path store --collection robots --count 4",
    ),
    _one(
        "golden-export",
        "small",
        "golden export beir golden.jsonl -o beir_out --docs docs",
        "golden export trec golden.jsonl -o trec_out --docs docs",
        goes="TREC and file exports",
    ),
    # Searches and collections
    _one(
        "search",
        "handbook",
        f"{SEARCH} --top-k 3 --json",
        f"{SEARCH} --mode hybrid --rerank mmr --verbose",
        f"{SEARCH} --mode keyword --group-by source_url --filters 'module = module-1-ros2 and not tags contains tf2'",
        f"{SEARCH} --threshold 0.9",
        f"{SEARCH} --threshold 0 --mode hybrid --fusion rrf --json",
    ),
    _one(
        "search-small",
        "small",
        f"{MINE} 'red button cuts power' --json --threshold 0",
        f"{MINE} '   '",
        f"{MINE} 'arm' --mode hybrid --fusion dbsf --json --include-metadata true",
        "retrievers search arm --python mine:overlap",
    ),
    _one(
        "index",
        "small",
        "retrievers index docs --store.path new --collection robots --max-tokens 32 --context path",
        "retrievers index docs --store.path new --collection robots --max-tokens 32 --context path",
        f"{SMALL} --retriever.store.path new --index.max-tokens 32 --index.overlap 0 --index.context path",
        "retrievers index docs --store.path new --collection merged --merge-small false --splitter recursive "
        "--chunk-size 200 --chunk-overlap 50",
        "retrievers search arm --store.path new --collection merged --threshold 0 --json",
    ),
    _one(
        "inspect",
        "small",
        "retrievers inspect --store.path store --collection robots --write new.yaml",
        "retrievers inspect --store.path local --collection dot",
        "retrievers doctor --store.path store --collection robots",
    ),
    _one("verify", "small", "retrievers verify --store.path store --collection robots", goes="verify and checksums"),
    # MLflow
    _one("tracked", "small", f"{SMALL} --tracking.enabled true --tracking.run-name one"),
    _one("tracked-grid", "beacons", f"{BEACONS} --tracking.enabled true {GRID} --sweep.mode semantic,hybrid"),
    # Cranfield, where --data names it
    _one("cranfield", "cranfield", f"{CRANFIELD} --retriever.mode hybrid"),
    _one(
        "cranfield-grid",
        "cranfield",
        f"{CRANFIELD} --sweep.mode semantic,keyword,hybrid --sweep.top-k 5,10 "
        "--sweep.threshold 0:0.6:0.1 --dataset.split dev",
    ),
)
