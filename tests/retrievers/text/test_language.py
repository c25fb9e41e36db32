"""Queries in another language than what was found: which are named, and which are not."""

import json
from pathlib import Path

import pytest

from retrievers.text.language import NAMES, Languages, differing

ENGLISH = [
    "A topic is a named bus over which nodes exchange messages. A publisher sends messages without knowing who "
    "listens, and a subscriber receives whatever arrives while it runs.",
    "The joint limits of the arm stand in the description of the robot, together with the inertia of every link.",
]
GERMAN = [
    "Ein Topic ist ein benannter Kanal, über den Knoten Nachrichten austauschen. Ein Herausgeber sendet, ohne zu "
    "wissen, wer zuhört, und ein Abonnent empfängt, was eintrifft, solange er läuft."
]
OTHERS = {
    "German": (
        "Wie funktionieren Topics in ROS 2?",
        "Was ist Vorwärtskinematik?",
        "Welche Sicherheitsnormen gelten für humanoide Roboter?",
        "roboter greifer rutscht ab",
        "nav2 costmap wird nicht aktualisiert",
        "Wie funktionieren Topics in ROS 2, und wozu brauche ich sie?",
        "roboter greifer rutscht ab, wenn er ein glattes werkstück hält",
    ),
    "French": (
        "Comment fonctionnent les topics dans ROS 2 ?",
        "Qu'est-ce que la cinématique directe ?",
        "régler un contrôleur PID",
        "Pourquoi mon robot tombe-t-il quand on le pousse par derrière ?",
    ),
    "Spanish": (
        "¿Cómo funcionan los topics en ROS 2?",
        "¿Qué es la cinemática directa?",
        "cómo configurar Isaac Sim",
        "ajustar un controlador PID para el brazo de un robot",
    ),
    "Chinese": ("ROS 2 话题是如何工作的？", "什么是正运动学？", "如何设置 Isaac Sim？", "安全标准"),
    "Japanese": ("ROS 2のトピックはどのように動作しますか？",),
    "Russian": ("прямая кинематика робота",),
}
CODE = (
    "rclpy.spin_until_future_complete(node, future)",
    "ros2 topic pub /cmd_vel geometry_msgs/msg/Twist",
    "use_sim_time",
    "tf2_ros.Buffer.lookup_transform ExtrapolationException",
    "colcon build --symlink-install --packages-up-to",
    "dq = J.T @ np.linalg.solve(A, e)",
    "SELECT * FROM queries WHERE id = 3",
    "ModuleNotFoundError: No module named 'rclpy'",
    "/dev/ttyACM0 permission denied",
    "ISO 13849-1 PL d",
    "tau = M(q) qdd + C qd + g",
    "zmp dcm capture point",
    "MPPI DWB RPP",
    "1.57 / 2",
)


@pytest.mark.parametrize(("name", "query"), [(name, query) for name, queries in OTHERS.items() for query in queries])
def test_another_language_is_named_from_eight_words_on_or_by_its_letters(name: str, query: str) -> None:
    is_short = name in ("German", "French", "Spanish") and len(query.split()) < 8
    assert differing(query, ENGLISH) == (None if is_short else Languages(name, "English"))


@pytest.mark.parametrize("query", ["o2", "o2 sensor", "Isaac Sim domani", "come mai?"])
def test_a_few_words_tell_nothing(query: str) -> None:
    assert differing(query, ENGLISH) is None


@pytest.mark.parametrize("query", CODE)
def test_code_and_short_forms_are_in_no_other_language(query: str) -> None:
    assert differing(query, ENGLISH) is None


def test_at_most_one_english_query_of_the_handbook_is_taken_for_another_language(handbook: Path) -> None:
    lines = [line for name in ("golden", "spec") for line in (handbook / f"{name}.jsonl").read_text().splitlines()]
    queries = [json.loads(line)["query"] for line in lines]
    assert len(queries) == 209
    assert sum(differing(query, ENGLISH) is not None for query in queries) <= 1


def test_a_query_most_of_whose_words_were_found_is_in_that_language() -> None:
    german = "was ist ein bus und wozu brauche ich ihn"
    assert differing(german, ENGLISH) == Languages("German", "English")
    assert differing(german, [*ENGLISH, "Was ist ein Bus, und wozu brauche ich: ein Zitat."]) is None


def test_the_language_is_that_of_what_was_found_not_english() -> None:
    assert [differing(query, GERMAN) for query in OTHERS["German"]] == [None] * 7
    assert differing("How do I keep a robot from tipping over when it is pushed?", GERMAN) == Languages(
        "English", "German"
    )


def test_a_query_whose_words_all_occur_in_the_texts_is_in_their_language() -> None:
    query = "was ist ein bus und wozu brauche ich ihn"
    assert differing(query, [*ENGLISH, "Ein Bus ist, was ich ihn und es brauche wozu."]) is None


@pytest.mark.parametrize("texts", [[], [""], ["def f(): pass"]])
def test_too_little_text_tells_nothing(texts: list[str]) -> None:
    assert differing("Was ist Vorwärtskinematik?", texts) is None


def test_names_are_distinct() -> None:
    assert len({*NAMES.values()}) == len(NAMES)
