"""What judging costs over waiting for the model: 225 Cranfield queries × 10 chunks, precision and recall, 0.3 s a call.

python benchmarks/judge.py --data DIR [--only in-process,http,ragas,row,cached,memory]

DIR holds cran.all.1400.xml, cran.qry.xml and cranqrel.trec.txt. The model is fake: it waits and answers from the
relevance judgements, in this process (a LangChain chat model) or behind Cohere's protocol on the loopback, served by a
process of its own. Cranfield has no reference answers; the titles of a query's relevant documents stand in, one
statement each. Bound: calls × 0.3 s / 16 at once. ragas' `evaluate` runs beside it in the same run, at its best.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LATENCY, AT_ONCE, DEPTH = 0.3, 16, 10
METRICS = ("ragas/llm_context_precision", "ragas/llm_context_recall")
PARTS = ("in-process", "http", "ragas", "row", "cached", "memory")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the collection")
    parser.add_argument("--only", default=",".join(PARTS), help="parts to measure")
    options = parser.parse_args()
    wanted = options.only.split(",")
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        observations, labels = cranfield(options.data, Path(folder))
        calls = sum(len(o.selection) + 1 for o in observations)
        bound = calls * LATENCY / AT_ONCE
        print(f"{len(observations)} queries, {calls:,} calls, bound {bound:.1f} s; load {os.getloadavg()[0]:.1f}")
        store = Path(folder) / "verdicts.sqlite"
        if "in-process" in wanted or "cached" in wanted:
            ours("ours, model in this process", observations, in_process(labels, LATENCY), store, bound, 1.03)
        if "cached" in wanted:
            cached(observations, in_process(labels, LATENCY), store, calls)
        if "http" in wanted:
            over_http(observations, labels, Path(folder) / "http.sqlite", bound)
        if "ragas" in wanted:
            ragas_evaluate(observations, bound)
        if "row" in wanted:
            one_row(observations[0], labels, Path(folder) / "row.sqlite")
        if "memory" in wanted:
            in_fresh_process(memory, Path(folder) / "memory.sqlite")


def warm_up() -> None:
    """Import what a run imports, so that no part pays for it."""
    from ragas.metrics import collections  # noqa: F401

    from evals.judge.judge import Judge  # noqa: F401
    from retrievers.embedding.tokens import count_tokens

    count_tokens("warm")


def cranfield(data: Path, folder: Path, depth: int = DEPTH) -> tuple[list[Any], Mapping[str, Any]]:
    """What each query returned, and to each query the texts that are useful and the statements they support."""
    from benchmarks import embedding_models as collection
    from evals.cases.relevance import Relevance
    from evals.collect.observations import Observation
    from evals.collect.passes import collect
    from tests.support.judging import Labels

    chunks = {c.chunk_id: c for c in collection.read_chunks(data / "cran.all.1400.xml")}
    config = collection.index(folder / "store", list(chunks.values()))
    cases = collection.read_cases(data)
    with collection.opened(config, {"top_k": depth, "candidates": depth}) as retriever:
        found = collect(retriever, cases, lambda stage, done, total: None)
    observations, labels = [], {}
    for case, candidates in zip(cases, found, strict=True):
        relevant = [chunks[chunk_id] for chunk_id in case.relevant if chunk_id in chunks]
        titles = {f"{c.title or c.text[:60]}.": [c.text] for c in relevant}
        observations.append(
            Observation(
                case=case.model_copy(update={"reference_answer": " ".join(titles) or "Nothing is known of it."}),
                relevance=Relevance(grades=case.relevant, items=()),
                candidates=candidates,
                selection=candidates.at(range(min(depth, len(candidates)))),
            )
        )
        labels[case.query] = Labels(useful=[c.text for c in relevant], claims=titles)
    return observations, labels


def in_process(labels: Mapping[str, Any], latency: float) -> Any:
    """A LangChain chat model that waits and then answers from the labels."""
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    from evals.judge.chat import Chat
    from tests.support.judging import Oracle

    oracle = Oracle(labels)

    class Fake(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "fake"

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any) -> ChatResult:
            time.sleep(latency)
            usage = {"input_tokens": 800, "output_tokens": 40, "total_tokens": 840}
            said = AIMessage(content=oracle.answer(messages[-1].content) or "", usage_metadata=usage)
            return ChatResult(generations=[ChatGeneration(message=said)])

    return Chat(provider="fake", name="labels", parameters={}, model=Fake())


def ours(label: str, observations: Sequence[Any], chat: Any, store: Path, bound: float, allowed: float) -> None:
    """Judge everything, and print the time over the bound."""
    seconds, judging = judged(observations, chat, store)
    print(
        f"{label:<44} {seconds:6.2f} s  {seconds / bound:.3f} of the bound ({allowed} allowed), "
        f"{judging.usage.calls:,} calls, {judging.usage.failed} failed"
    )


def judged(observations: Sequence[Any], chat: Any, store: Path) -> tuple[float, Any]:
    """Seconds of judging, and what was said."""
    from evals.config.judge import JudgeConfig
    from evals.judge.judge import Judge
    from evals.judge.store import VerdictStore

    config = JudgeConfig.model_validate({"model": f"{chat.provider}:{chat.name}", "max_concurrency": AT_ONCE})
    judge = Judge(config, chat, VerdictStore(store))
    start = time.perf_counter()
    judging = judge.judge(METRICS, observations)
    seconds = time.perf_counter() - start
    judge.close()
    return seconds, judging


def cached(observations: Sequence[Any], chat: Any, store: Path, verdicts: int) -> None:
    """The same again, out of the store."""
    seconds, judging = judged(observations, chat, store)
    rate = verdicts / seconds
    print(f"{'ours, all cached':<44} {seconds:6.2f} s  {rate:,.0f} verdicts a second: {rate / 2000:.2f} of the 2,000 "
          f"wanted, {judging.usage.calls} calls")  # fmt: skip


def over_http(observations: Sequence[Any], labels: Mapping[str, Any], store: Path, bound: float) -> None:
    """Through langchain-cohere and HTTP, to a server in another process."""
    from evals.config.judge import JudgeConfig
    from evals.judge.chat import make_chat
    from tests.support.cohere_server import KEY

    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    server = context.Process(target=serve, args=(dict(labels), there), daemon=True)
    server.start()
    try:
        settings = {"model": "cohere:command-a-03-2025", "base_url": here.recv()}
        chat = make_chat(JudgeConfig.model_validate(settings), {"COHERE_API_KEY": KEY})
        ours("ours, langchain-cohere over loopback HTTP", observations, chat, store, bound, 1.10)
    finally:
        server.terminate()
        server.join()


def serve(labels: Mapping[str, Any], pipe: Any) -> None:
    """A Cohere server, until it is ended."""
    sys.path.insert(0, str(ROOT))
    from tests.support.chat_server import CohereChatServer
    from tests.support.judging import Oracle

    with CohereChatServer(Oracle(labels), latency=LATENCY) as server:
        server.keeps_alive = True  # as that of Cohere
        pipe.send(server.url)
        time.sleep(3600)


def ragas_evaluate(observations: Sequence[Any], bound: float) -> None:
    """The `evaluate` of ragas, 16 workers, with an asynchronous model made for it: the fastest way it knows."""
    import warnings

    warnings.simplefilter("ignore")
    from datasets import Dataset
    from langchain_core.outputs import Generation, LLMResult
    from ragas import evaluate
    from ragas.llms.base import BaseRagasLLM
    from ragas.metrics import LLMContextPrecisionWithReference, LLMContextRecall
    from ragas.run_config import RunConfig

    said = {True: {"reason": "r", "verdict": 1}, False: {"classifications": [
        {"statement": "s", "reason": "r", "attributed": 1}]}}  # fmt: skip

    class Fake(BaseRagasLLM):  # type: ignore[misc]
        def generate_text(self, prompt: Any, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

        async def agenerate_text(self, prompt: Any, *args: Any, **kwargs: Any) -> Any:
            await asyncio.sleep(LATENCY)
            text = json.dumps(said['"classifications"' not in prompt.to_string()])
            return LLMResult(generations=[[Generation(text=text)]])

        def is_finished(self, response: Any) -> bool:
            return True

    rows = [
        {
            "user_input": o.case.query,
            "reference": o.case.reference_answer,
            "retrieved_contexts": [f.chunk.text for f in o.selection],
        }
        for o in observations
    ]
    data = Dataset.from_list(rows)
    start = time.perf_counter()
    evaluate(
        data,
        metrics=[LLMContextPrecisionWithReference(), LLMContextRecall()],
        llm=Fake(),
        run_config=RunConfig(max_workers=AT_ONCE),
        show_progress=False,
    )
    seconds = time.perf_counter() - start
    print(f"{'ragas evaluate(), 16 workers':<44} {seconds:6.2f} s  {seconds / bound:.3f} of the bound")


def one_row(observation: Any, labels: Mapping[str, Any], store: Path) -> None:
    """One query with ten chunks: here they are asked at once, in ragas one after the other."""
    from evals.judge.answers import read_verdict
    from evals.judge.tasks import JUDGED, PRECISION, by_ragas

    chat = in_process(labels, LATENCY)

    class Direct:
        async def ask(self, prompt: str, schema: Any) -> Any:
            return read_verdict(await asyncio.to_thread(chat.model.invoke, prompt), schema, "")

    texts = [found.chunk.text for found in observation.selection]
    start = time.perf_counter()
    case = observation.case
    asyncio.run(by_ragas(PRECISION, JUDGED[PRECISION].inputs(case.query, case.reference_answer or "", texts), Direct()))
    theirs = time.perf_counter() - start
    seconds, _ = judged([observation], chat, store)
    rounds = 2  # the first call proves the judge before the others are made
    print(f"{'one query × 10 chunks':<44} {seconds:6.2f} s  {seconds / LATENCY / rounds:.2f} of 0.3 s a round, "
          f"{rounds} rounds (1.5 allowed); ragas, precision alone: {theirs:.2f} s")  # fmt: skip


def in_fresh_process(work: Any, *arguments: Any) -> None:
    """Do it where nothing else has used memory."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()


def memory(store: Path) -> None:
    """Memory that 100,000 verdicts take above the imports and the queries."""
    sys.path.insert(0, str(ROOT))
    from evals.config.telemetry import silence

    silence(hub=False)
    warm_up()
    chat = in_process({}, 0.0)
    import numpy as np

    from evals.cases.case import Case
    from evals.cases.relevance import Relevance
    from evals.collect.observations import Observation
    from retrievers.records import Chunk
    from retrievers.search.candidates import Candidates, ChunkList, SearchFacts

    chunks = ChunkList()
    for n in range(1000):
        chunks.code(Chunk(chunk_id=f"c{n}", point_id=f"p{n}", text=f"chunk {n} " + "word " * 150))
    codes = (np.arange(10_000)[:, None] * 7 + np.arange(DEPTH)) % 1000
    found = Candidates(
        codes=codes, columns={"score": np.full(codes.shape, 0.5)}, chunks=chunks, facts=[SearchFacts()] * len(codes)
    )
    observations = [
        Observation(
            case=Case(id=f"q{n}", query=f"question {n}", reference_answer="An answer.", relevant_ids={"c1": 1}),
            relevance=Relevance(grades={}, items=()),
            candidates=candidates,
            selection=candidates,
        )
        for n, candidates in enumerate(found)
    ]
    before = memory_mb("VmRSS")
    start = time.perf_counter()
    from evals.config.judge import JudgeConfig
    from evals.judge.judge import Judge
    from evals.judge.store import VerdictStore

    judge = Judge(JudgeConfig.model_validate({"model": "fake:labels"}), chat, VerdictStore(store))
    judging = judge.judge(METRICS[:1], observations)
    judge.close()
    seconds = time.perf_counter() - start
    used = memory_mb("VmHWM") - before
    print(f"{'memory of 100,000 verdicts':<44} {used:6.0f} MB  {used / 300:.2f} of the "
          f"300 MB allowed, {len(judging.verdicts):,} verdicts in {seconds:.0f} s")  # fmt: skip


def memory_mb(name: str) -> float:
    """What Linux says this process has (`VmRSS`) or had at most (`VmHWM`), in megabytes."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return float(next(line.split()[1] for line in status.splitlines() if line.startswith(name))) / 1024


if __name__ == "__main__":
    main()
