import asyncio
from concurrent.futures import ThreadPoolExecutor

from langchain_core.messages import AIMessage, HumanMessage

from tests.support.chat_server import SMALL_TALK
from tests.support.one_question import ORACLE, RIGHT, prompt
from tests.support.oracle_chat import OracleChat


def test_answers_with_usage() -> None:
    answer = OracleChat(oracle=ORACLE).invoke(prompt())
    assert answer.text == RIGHT
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["input_tokens"] == len(prompt()) // 4


def test_reads_a_conversation() -> None:
    chat = OracleChat(oracle=ORACLE)
    said = [HumanMessage(prompt()), AIMessage("yes"), HumanMessage("As JSON, please.")]
    assert chat.invoke(said).text == RIGHT
    assert chat.invoke("hello").text == SMALL_TALK


def test_counts_the_most_at_once_in_threads_and_on_a_loop() -> None:
    threaded, looped = (OracleChat(oracle=ORACLE, latency=0.1) for _ in range(2))
    with ThreadPoolExecutor(5) as pool:
        assert {answer.text for answer in pool.map(threaded.invoke, [prompt()] * 10)} == {RIGHT}

    async def ask() -> list[AIMessage]:
        return await asyncio.gather(*(looped.ainvoke(prompt()) for _ in range(5)))

    assert {answer.text for answer in asyncio.run(ask())} == {RIGHT}
    assert (threaded.calls, looped.calls, looped.peak) == (10, 5, 5)
    assert 1 <= threaded.peak <= 5
