"""Messages that ask who or what is answering, in six languages."""

from __future__ import annotations

import pytest

from tandem.conductor.router.identity import IDENTITY_ASK, asks_identity, identity_part

ASKING = {
    "en": (
        "Who are you?",
        "what are you",
        "What model are you?",
        "Which AI model am I talking to?",
        "what's your name?",
        "Hi! Are you ChatGPT?",
        "are you a human?",
        "who made you?",
        "WHO AM I TALKING TO",
        "Nice. What\u2019s your name, by the way?",
    ),
    "de": (
        "Wer bist du?",
        "Wer bist du eigentlich?",
        "Was bist du?",
        "Welches Modell bist du?",
        "Welches KI-Modell ist das hier?",
        "Mit wem spreche ich?",
        "Wie heißt du?",
        "Bist du ChatGPT?",
        "Bist du eine KI?",
        "Wer hat dich entwickelt?",
    ),
    "fr": (
        "Qui es-tu ?",
        "Qui êtes-vous ?",
        "Tu es qui ?",
        "Quel modèle es-tu ?",
        "Comment t\u2019appelles-tu ?",
        "À qui je parle ?",
        "Es-tu ChatGPT ?",
        "Qui t'a créé ?",
    ),
    "es": (
        "¿Quién eres?",
        "quien eres",
        "¿Qué eres?",
        "¿Qué modelo eres?",
        "¿Cómo te llamas?",
        "¿Con quién estoy hablando?",
        "¿Eres ChatGPT?",
        "¿Quién te creó?",
    ),
    "it": (
        "Chi sei?",
        "Che cosa sei?",
        "Quale modello sei?",
        "Come ti chiami?",
        "Con chi sto parlando?",
        "Sei un'intelligenza artificiale?",
        "Chi ti ha creato?",
    ),
    "nl": (
        "Wie ben je?",
        "Wat ben jij?",
        "Welk model ben je?",
        "Hoe heet je?",
        "Met wie praat ik?",
        "Ben je een robot?",
        "Wie heeft je gemaakt?",
    ),
}
NOT_ASKING = (
    "Who are you going to vote for, asked the reporter.",
    "What are you doing with the variable x?",
    "What model should I use for the regression?",
    "Which car model is best?",
    "Write a class Model with a name.",
    "Are you sure?",
    "Wer ist der Bundeskanzler?",
    "Was bist du von Beruf gewesen, fragte er.",
    "Welches Modell hat dieses Auto?",
    "Wie heißt die Hauptstadt von Peru?",
    "Qui est le président ?",
    "Quel modèle de voiture choisir ?",
    "¿Quién es el autor?",
    "¿Qué modelo de coche compro?",
    "Chi è il sindaco?",
    "Che modello di auto compro?",
    "Wie is de burgemeester?",
    "Welk model auto is dit?",
    "Fix the failing test in test_identity.py",
    "",
)


@pytest.mark.spec("FIT-002")
@pytest.mark.parametrize(("language", "message"), [(name, one) for name, all in ASKING.items() for one in all])
def test_a_question_about_the_model_is_one(language: str, message: str) -> None:
    assert language in IDENTITY_ASK
    assert asks_identity(message)


@pytest.mark.spec("FIT-002")
@pytest.mark.parametrize("message", NOT_ASKING)
def test_other_questions_are_not(message: str) -> None:
    assert not asks_identity(message)


@pytest.mark.spec("FIT-002")
def test_of_a_long_message_the_ends_are_read() -> None:
    filler = "The quick brown fox jumps. " * 40_000
    assert asks_identity("Who are you? " + filler)
    assert asks_identity(filler + "Who are you?")
    assert not asks_identity(filler + "Who are you? " + filler)


@pytest.mark.spec("FIT-002", "FIT-003")
def test_the_note_names_the_model_and_the_server() -> None:
    part = identity_part("Qwen3.8-27B {x}")
    assert (part.kind, part.origin) == ("identity", "note")
    assert "Qwen3.8-27B {x}" in part.text
    assert "TandemLLM" in part.text
    assert "one short sentence" in part.text
