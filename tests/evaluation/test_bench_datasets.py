from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from octopus_memory import InvalidInput
from octopus_memory.evaluation import Dataset, load_dataset


def _write(folder: Path, value: object) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps(value))
    return path


def _locomo() -> list[dict[str, object]]:
    def turn(place: str, speaker: str, text: str, **more: str) -> dict[str, str]:
        return {"speaker": speaker, "dia_id": place, "text": text, **more}

    said = {
        "speaker_a": "Ana",
        "speaker_b": "Bo",
        "session_2_date_time": "12:05 am on 1 June, 2023",
        "session_2": [turn("D2:1", "Ana", "The kiln arrived.")],
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            turn("D1:1", "Ana", "I ordered a kiln.", blip_caption="a kiln in a shed"),
            turn("D1:2", "Bo", "For pots?"),
        ],
        "session_3_date_time": "1:00 pm on 2 June, 2023",
        "session_3": [],
    }
    qa = [
        {
            "question": "What came?",
            "category": 4,
            "evidence": ["D1:1; D2:1", "D:1:2"],
            "answer": "a kiln",
        },
        {"question": "When?", "category": 2, "evidence": ["D1:1", "D9:9", "D"], "answer": 2023},
        {"question": "Why?", "category": 3, "evidence": []},
        {"question": "What did Bo order?", "category": 5, "evidence": ["D1:1"]},
    ]
    return [{"sample_id": "conv-1", "conversation": said, "qa": qa}]


def _longmemeval() -> list[dict[str, object]]:
    def sample(name: str, **more: object) -> dict[str, object]:
        return {
            "question_id": name,
            "question_type": "single-session-user",
            "question": "Which dog did I get?",
            "question_date": "2023/05/30 (Tue) 23:40",
            "answer": "a whippet",
            "haystack_session_ids": ["late", "answer_1", "answer_1"],
            "haystack_dates": [
                "2023/05/22 (Mon) 08:00",
                "2023/05/20 (Sat) 02:21",
                "2023/05/20 (Sat) 02:21",
            ],
            "haystack_sessions": [
                [{"role": "user", "content": "Good morning"}, {"role": "user", "content": " "}],
                [
                    {"role": "user", "content": "I got a whippet", "has_answer": True},
                    {"role": "assistant", "content": "Lovely dogs", "has_answer": False},
                ],
                [{"role": "user", "content": "again"}],
            ],
            "answer_session_ids": ["answer_1"],
            **more,
        }

    return [sample("q1"), sample("q2_abs"), sample("q3", answer_session_ids=["elsewhere"])]


@pytest.fixture
def locomo(tmp_path: Path) -> Dataset:
    return load_dataset("locomo", _write(tmp_path, _locomo()))


def test_locomo_turns_come_in_the_order_of_sessions_with_their_times(locomo: Dataset):
    (conversation,) = locomo.conversations
    assert [turn.id for turn in conversation.turns] == ["D1:1", "D1:2", "D2:1"]
    first, second, third = conversation.turns
    assert (first.role, first.name, first.session_id) == ("user", "Ana", "session_1")
    assert (second.role, second.name) == ("assistant", "Bo")
    assert first.at == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert third.at == datetime(2023, 6, 1, 0, 5, tzinfo=UTC)


def test_locomo_evidence_is_mended_or_counted(locomo: Dataset):
    what, when = locomo.conversations[0].questions
    assert what.evidence_turns == {"D1:1", "D2:1", "D1:2"}
    assert what.evidence_sessions == {"session_1", "session_2"}
    assert when.evidence_turns == {"D1:1"}
    assert (what.answer, when.answer) == ("a kiln", "2023")
    assert locomo.left_out == {
        "evidence ids that name no turn": 2,
        "questions without evidence": 1,
    }


def test_locomo_takes_the_answerable_unless_others_are_asked_for(tmp_path: Path, locomo: Dataset):
    assert locomo.categories == ["2", "4"]
    others = load_dataset("locomo", _write(tmp_path, _locomo()), categories=["5"])
    assert [asked.text for asked in others.conversations[0].questions] == ["What did Bo order?"]
    assert locomo.labels["2"] == "temporal"


def test_locomo_captions_are_added_on_request(tmp_path: Path, locomo: Dataset):
    assert locomo.conversations[0].turns[0].text == "I ordered a kiln."
    more = load_dataset("locomo", _write(tmp_path, _locomo()), captions=True)
    assert "a kiln in a shed" in more.conversations[0].turns[0].text


def test_a_dataset_names_the_file_it_came_from(tmp_path: Path, locomo: Dataset):
    raw = (tmp_path / "data.json").read_bytes()
    assert locomo.sha256 == hashlib.sha256(raw).hexdigest()
    assert (locomo.turns, locomo.questions) == (3, 2)


def test_without_a_time_of_asking_it_is_the_day_after(locomo: Dataset):
    (conversation,) = locomo.conversations
    last = conversation.turns[-1].at
    assert conversation.asked_at(conversation.questions[0]) == last + timedelta(days=1)


def test_longmemeval_is_read_as_its_repository_defines_it(tmp_path: Path):
    found = load_dataset("longmemeval", _write(tmp_path, _longmemeval()))
    (conversation,) = found.conversations
    assert [turn.id for turn in conversation.turns] == ["answer_1_1", "answer_1_2", "late_1"]
    (question,) = conversation.questions
    assert question.evidence_turns == {"answer_1_1"}
    assert question.evidence_sessions == {"answer_1"}
    assert question.answer == "a whippet"
    assert conversation.asked_at(question) == datetime(2023, 5, 30, 23, 40, tzinfo=UTC)
    assert found.left_out["abstention questions"] == 1
    assert found.left_out["questions without evidence"] == 1
    assert found.left_out["repeated sessions"] == 2


def test_user_turns_only_leaves_out_what_only_the_assistant_said(tmp_path: Path):
    samples = _longmemeval()[:1]
    found = load_dataset("longmemeval", _write(tmp_path, samples), user_turns_only=True)
    assert {turn.role for turn in found.conversations[0].turns} == {"user"}
    assert found.questions == 1
    answer = samples[0]["haystack_sessions"][1]
    answer[0]["has_answer"], answer[1]["has_answer"] = False, True
    moved = load_dataset("longmemeval", _write(tmp_path, samples), user_turns_only=True)
    assert moved.questions == 0
    assert moved.left_out["questions about the assistant's turns"] == 1


LINES = """
{"type": "turn", "id": "t1", "session": "s1", "role": "user", "text": "I moved to Oslo",
 "at": "2024-05-01T10:00:00Z", "name": "Ana"}
{"type": "turn", "id": "t2", "session": "s2", "role": "assistant", "text": "Noted",
 "at": "2024-05-02T10:00:00+02:00"}
{"type": "question", "text": "Where?", "evidence": ["t1", "t9"], "category": "place",
 "asked_at": "2024-06-01T09:00:00Z"}
{"type": "question", "text": "Which session?", "evidence_sessions": ["s2", "s9"]}
{"type": "question", "text": "Nothing"}
""".replace("\n ", " ")
TOOL = (
    '{{"type": "turn", "id": "t1", "session": "s1", "role": "tool", "text": "12", "function": {}, '
    '"at": "2024-05-01T10:00:00Z"}}'
)


def _jsonl(folder: Path, text: str) -> Path:
    path = folder / "data.jsonl"
    path.write_text(text)
    return path


def test_jsonl_needs_little(tmp_path: Path):
    found = load_dataset("jsonl", _jsonl(tmp_path, LINES))
    (conversation,) = found.conversations
    assert conversation.turns[1].at == datetime(2024, 5, 2, 8, tzinfo=UTC)
    where, which = conversation.questions
    assert (where.category, which.category) == ("place", "all")
    assert where.evidence_turns == {"t1"}
    assert where.evidence_sessions == {"s1"}
    assert (which.evidence_turns, which.evidence_sessions) == (frozenset(), {"s2"})
    assert found.left_out == {
        "evidence ids that name no turn": 1,
        "questions without evidence": 1,
    }


def _line(**values: object) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"


def test_jsonl_questions_may_have_answers_and_a_language(tmp_path: Path):
    asked = {"type": "question", "text": "Wo?", "evidence": ["t1"]}
    whole = _line(**asked, answer="in Oslo", answer_words=["Oslo", "moved"], language="de")
    bare = _line(**asked, answer=7)
    found = load_dataset("jsonl", _jsonl(tmp_path, LINES + whole + bare))
    *_, whole_one, bare_one = found.conversations[0].questions
    assert whole_one.answer == "in Oslo"
    assert whole_one.answer_words == ("Oslo", "moved")
    assert (whole_one.language, bare_one.language) == ("de", None)
    assert (bare_one.answer, bare_one.answer_words) == ("7", ())
    assert found.languages == ["de"]


def test_jsonl_says_what_was_forgotten_and_what_must_not_stand_there(tmp_path: Path):
    turn = {"type": "turn", "session": "s", "id": "t", "role": "user", "text": "Hi.",
            "at": "2024-05-01T10:00:00Z"}  # fmt: skip
    forget = {"type": "forget", "about": "the loan", "at": "2024-05-02T10:00:00Z"}
    asked = {"type": "question", "text": "?", "evidence": ["t"], "rubric": ["one", "two"],
             "answer_dates": ["2024-05-01"], "forbidden_words": ["loan"]}  # fmt: skip
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(map(json.dumps, (turn, forget, asked))))
    [found] = load_dataset("jsonl", file).conversations
    assert [(wish.about, wish.at.day) for wish in found.forgotten] == [("the loan", 2)]
    [question] = found.questions
    assert question.rubric == ("one", "two")
    assert [day.isoformat() for day in question.answer_dates] == ["2024-05-01"]
    assert question.forbidden_words == ("loan",)
    file.write_text("\n".join(map(json.dumps, (turn, asked | {"answer_dates": ["1 May"]}))))
    with pytest.raises(InvalidInput, match="'answer_dates' must be days"):
        load_dataset("jsonl", file)


def test_questions_with_no_evidence_by_intent_are_kept_apart(tmp_path: Path):
    none = _line(type="question", text="thanks!", evidence=[], category="small-talk")
    gone = _line(type="question", text="Which?", evidence=[], evidence_sessions=["s9"])
    found = load_dataset("jsonl", _jsonl(tmp_path, LINES + none + gone))
    (conversation,) = found.conversations
    assert [asked.text for asked in conversation.unanswerable] == ["thanks!"]
    assert (found.questions, found.unanswerable) == (2, 1)
    assert (found.categories, found.unanswerable_categories) == (["all", "place"], ["small-talk"])
    assert found.left_out["questions without evidence"] == 2
    assert found.left_out["questions without an answer"] == 1
    assert found.about(["place"]).unanswerable == 0
    assert found.about(["small-talk"]).questions == 0
    user = load_dataset("jsonl", tmp_path / "data.jsonl", user_turns_only=True)
    assert user.unanswerable == 1


def test_a_tool_turn_is_a_message_with_its_call(tmp_path: Path):
    tool = {"type": "turn", "session": "s1", "role": "tool", "at": "2024-05-01T10:00:00Z"}
    called = _line(**tool, id="t3", text='{"days": 12}', function="leave", arguments={"of": "Ana"})
    bare = _line(**tool, id="t4", text="12 days")
    (conversation,) = load_dataset("jsonl", _jsonl(tmp_path, LINES + called + bare)).conversations
    spoken, _, with_call, without = (turn.message for turn in conversation.turns)
    assert spoken.body == {"role": "user", "content": "I moved to Oslo", "name": "Ana"}
    call = with_call.tool_call
    assert call is not None
    assert (call.tool_call_id, call.function_name, call.arguments) == ("t3", "leave", {"of": "Ana"})
    assert with_call.text == call.result == '{"days": 12}'
    assert without.body == {"role": "tool", "tool_call_id": "t4", "content": "12 days"}


def test_a_line_separator_in_a_text_does_not_end_the_line(tmp_path: Path):
    line = LINES.replace("I moved to Oslo", "I moved\u2028to Oslo")
    found = load_dataset("jsonl", _jsonl(tmp_path, line))
    assert found.conversations[0].turns[0].text == "I moved\u2028to Oslo"


def test_a_folder_is_read_in_order_of_names(tmp_path: Path):
    folder = tmp_path / "talks"
    folder.mkdir()
    second = LINES.replace('{"type"', '{"conversation": "second", "type"')
    (folder / "b.jsonl").write_text(second)
    (folder / "a.jsonl").write_text(LINES)
    (folder / "a.txt").write_text("{")
    found = load_dataset("jsonl", folder)
    assert [conversation.id for conversation in found.conversations] == ["1", "second"]
    assert found.sha256 == hashlib.sha256((LINES + second).encode()).hexdigest()
    (folder / "b.jsonl").write_text("\n{")
    with pytest.raises(InvalidInput, match=r"b\.jsonl, line 2 must be JSON"):
        load_dataset("jsonl", folder)


def test_a_folder_without_data_or_of_another_format_is_refused(tmp_path: Path):
    with pytest.raises(InvalidInput, match="has no \\*.jsonl file"):
        load_dataset("jsonl", tmp_path)
    with pytest.raises(InvalidInput, match="cannot read"):
        load_dataset("locomo", tmp_path)


def test_conversations_can_be_limited_and_categories_chosen(tmp_path: Path):
    two = LINES + LINES.replace('{"type"', '{"conversation": "2", "type"')
    found = load_dataset("jsonl", _jsonl(tmp_path, two))
    assert len(found.conversations) == 2
    assert len(found.first(1).conversations) == 1
    assert found.about(["place"]).questions == 2
    with pytest.raises(InvalidInput, match="must be among all, place.*, not price"):
        found.about(["price"])
    with pytest.raises(InvalidInput, match="limit_conversations"):
        found.first(0)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "line 1 must be JSON"),
        ("[]", "line 1 must be a JSON object"),
        ('{"type": "word"}', "line 1: the type must be"),
        ('{"type": "turn"}', "line 1 must have 'role'"),
        ('{"type": "turn", "role": "boss"}', "the role must be one of"),
        (LINES.replace("10:00:00Z", "10:00:00"), "must have a zone"),
        (LINES.replace('"t2"', '"t1"'), "must be unique in a conversation: 't1'"),
        (LINES.replace('["t1", "t9"]', '"t1"'), "'evidence' must be a list"),
        ('{"type": "question", "text": "?"}', "must have turns, not only questions"),
        (LINES.replace('"name": "Ana"', '"function": "f"'), "must have the role 'tool'"),
        (LINES.replace('"category": "place"', '"answer_words": "Oslo"'), "must be a list of texts"),
        (LINES.replace('"category": "place"', '"answer_words": [" "]'), "must be a list of texts"),
        (LINES.replace('"category": "place"', '"answer": ["Oslo"]'), "'answer' must be a text"),
        (TOOL.format('""'), "'function' must not be empty"),
        (TOOL.format("7"), "must have 'function' of type str"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, text: str, words: str):
    with pytest.raises(InvalidInput, match=words) as caught:
        load_dataset("jsonl", _jsonl(tmp_path, text))
    assert "Oslo" not in str(caught.value)


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        ("locomo", [{"qa": []}], "sample 0 must have 'conversation'"),
        ("locomo", [["x"]], "sample 0 must be a JSON object"),
        ("locomo", _longmemeval(), "sample 0 must have 'conversation'"),
        ("longmemeval", _locomo(), "question 0 must have 'question_id'"),
        ("longmemeval", 7, "must be a list of JSON objects"),
        ("longmemeval", [_longmemeval()[0] | {"haystack_dates": []}], "must have the same length"),
        ("csv", [], "dataset: must be one of locomo, longmemeval, jsonl"),
    ],
)
def test_another_format_is_refused(tmp_path: Path, form: str, value: object, words: str):
    with pytest.raises(InvalidInput, match=words):
        load_dataset(form, _write(tmp_path, value))


def test_a_strange_date_is_refused(tmp_path: Path):
    samples = json.loads(json.dumps(_locomo()).replace("1:56 pm on 8 May, 2023", "yesterday"))
    with pytest.raises(InvalidInput, match="sample 0, session_1: the date must"):
        load_dataset("locomo", _write(tmp_path, samples))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    with pytest.raises(InvalidInput, match="no-such-file"):
        load_dataset("locomo", tmp_path / "no-such-file")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="UTF-8"):
        load_dataset("jsonl", tmp_path / "binary")


def test_locomo_has_no_user_turns_alone(tmp_path: Path):
    with pytest.raises(InvalidInput, match="user_turns_only"):
        load_dataset("locomo", _write(tmp_path, _locomo()), user_turns_only=True)
