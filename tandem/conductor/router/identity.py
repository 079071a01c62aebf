"""Who is answering: the note of a turn that asks (FIT-002, FIT-003).

A question about the model is short and stands where a message begins or ends, so only these parts of a long one are
looked at. The note says "asked", because words alone cannot tell a person's question from one in a story. It is short,
because the embedded model repeats a longer one as its answer.
"""

from __future__ import annotations

import re

from tandem.conductor.router.notes import NotePart

__all__ = ["IDENTITY_ASK", "asks_identity", "identity_part"]

LOOKED_AT = 600
"""Characters at either end of a message (decided)."""

_NAMES = (
    "chat ?gpt|gpt(?:-?[0-9.o]+)?|claude|gemini|bard|llama|mistral|qwen|deep ?seek|grok|copilot|siri|alexa"
    "|open ?ai|anthropic|google|meta"
)
_END = r"(?=\s*(?:[?!.,;:)\"»“]|$|\b(?:really|actually|exactly|eigentlich|genau|denn|vraiment|exactement|realmente)\b))"

IDENTITY_ASK = {
    "en": (
        r"\bwho (?:are|r) (?:you|u)\b(?! (?:to|going|talking|writing|looking|meeting))",
        r"\bwhat (?:are|r) (?:you|u)" + _END,
        r"\b(?:what|which) (?:ai |language |llm )*(?:model|llm|ai)(?: version)? (?:are you|is this|do you (?:use|run)"
        r"|am i (?:talking|speaking|chatting)|(?:is )?(?:answering|running|powers)|r u)\b",
        r"\b(?:what is|what's|whats|tell me) your name\b",
        r"\bwho am i (?:talking|speaking|chatting|writing) (?:to|with)\b",
        rf"\bare you (?:an? )?(?:{_NAMES}|ai|bot|robot|human|real person|person|machine|language model)" + _END,
        r"\bwho (?:made|built|created|trained|developed|programmed) (?:you|u)" + _END,
    ),
    "de": (
        r"\bwer bist du\b",
        r"\bwer sind sie" + _END,
        r"\bwas bist du" + _END,
        r"\b(?:welches|was für ein) (?:ki[- ]?|sprach[- ]?)?modell (?:bist du|sind sie|ist das|läuft|antwortet"
        r"|(?:be)?nutzt du|verwendest du|steckt)\b",
        r"\bmit wem (?:spreche|rede|schreibe|chatte) ich\b",
        r"\b(?:wie heißt du|wie heisst du|wie heißen sie|wie ist dein name|was ist dein name)\b",
        rf"\b(?:bist du|sind sie) (?:eine? )?(?:{_NAMES}|ki|künstliche intelligenz|bot|roboter|mensch|maschine)" + _END,
        r"\bwer hat dich (?:gemacht|gebaut|entwickelt|trainiert|erschaffen|programmiert)\b",
    ),
    "fr": (
        r"\bqui (?:es[- ]tu|êtes[- ]vous)\b",
        r"\b(?:tu es|vous êtes|t'es) qui" + _END,
        r"\bqu'(?:es[- ]tu|êtes[- ]vous)" + _END,
        r"\bquel (?:est (?:ton|votre) )?modèle\b[^?.!\n]{0,24}\b(?:es[- ]tu|êtes[- ]vous|utilises|utilisez|réponds?)\b",
        r"\bquel est (?:ton|votre) (?:nom|modèle)\b",
        r"\b(?:comment (?:t'appelles[- ]tu|tu t'appelles|vous appelez[- ]vous)|à qui (?:est-ce que )?je parle)\b",
        rf"\b(?:es[- ]tu|êtes[- ]vous|tu es) (?:une? )?(?:{_NAMES}|ia|intelligence artificielle|robot|humain)" + _END,
        r"\bqui (?:t'a|vous a) (?:créé|fait|développé|entraîné|programmé)e?\b",
    ),
    "es": (
        r"\bqui[ée]n (?:eres|es usted)\b",
        r"\bqu[ée] (?:eres|es usted)" + _END,
        r"\b(?:qu[ée]|cu[áa]l) modelo (?:de (?:ia|lenguaje) )?(?:eres|es este|usas|utilizas|responde)\b",
        r"\b(?:c[óo]mo te llamas|c[óo]mo se llama usted|cu[áa]l es (?:tu|su) nombre)\b",
        r"\bcon qui[ée]n (?:estoy hablando|hablo|estoy chateando)\b",
        rf"\beres (?:una? )?(?:{_NAMES}|ia|inteligencia artificial|bot|robot|humano|humana|persona)" + _END,
        r"\bqui[ée]n te (?:cre[óo]|hizo|entren[óo]|desarroll[óo]|program[óo])\b",
    ),
    "it": (
        r"\bchi sei\b",
        r"\b(?:che )?cosa sei" + _END,
        r"\b(?:che|quale) modello (?:di (?:ia|linguaggio) )?(?:sei|è questo|usi|utilizzi|risponde)\b",
        r"\b(?:come ti chiami|qual è il tuo nome|con chi (?:sto parlando|parlo))\b",
        rf"\bsei (?:un |una |un'|uno )?(?:{_NAMES}|ia|intelligenza artificiale|bot|robot|umano|umana|persona)" + _END,
        r"\bchi ti ha (?:creato|fatto|addestrato|sviluppato|programmato)\b",
    ),
    "nl": (
        r"\bwie (?:ben (?:je|jij)|bent u)\b",
        r"\bwat (?:ben (?:je|jij)|bent u)" + _END,
        r"\b(?:welk|wat voor) (?:ai[- ]?|taal[- ]?)?model (?:ben (?:je|jij)|bent u|is dit|gebruik je|antwoordt)\b",
        r"\b(?:hoe heet (?:je|jij)|hoe heet u|wat is (?:je|jouw|uw) naam)\b",
        r"\bmet wie (?:praat|spreek|chat) ik\b",
        rf"\b(?:ben (?:je|jij)|bent u) (?:een )?(?:{_NAMES}|ai|bot|robot|mens|machine|taalmodel)" + _END,
        r"\bwie heeft (?:je|jou|u) (?:gemaakt|gebouwd|ontwikkeld|getraind|geprogrammeerd)\b",
    ),
}
"""What asks who or what is answering, by language; matched against lower-case text with single spaces."""

ASKS = re.compile("|".join(pattern for patterns in IDENTITY_ASK.values() for pattern in patterns))
NOTE = (
    "Asked who is answering, say in one short sentence, in the user's language: the model {model}, running in "
    "TandemLLM. Not asked, ignore this."
)


def asks_identity(message: str) -> bool:
    """Whether a user's message asks who or what is answering."""
    ends = (message,) if len(message) <= 2 * LOOKED_AT else (message[:LOOKED_AT], message[-LOOKED_AT:])
    return any(ASKS.search(" ".join(end.lower().replace("\u2019", "'").split())) for end in ends)


def identity_part(model: str) -> NotePart:
    """The note of a turn that asks; `model` is the served checkpoint's name, or the one given by `--model-name`."""
    return NotePart("identity", "identity", NOTE.format(model=model))
