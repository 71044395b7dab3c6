"""Personal messages of campaigns, as docs/messages.md explains them: made up, and what a device gets of one.

The texts are made by replacing placeholders in values that a JSON library has read, and held against what a JSON
library makes of the push. The server and the workers join bytes."""

import dataclasses
import json
import re

# What devices have under `nick`. None: they do not have it.
NICKS = [None, None, "", "Ann", 'O\'Neil "the" \\ 😀', "{{plan}} {{{{", "a\u2028b\n\tc\x01", "日本語", True, False, -0.5]
DEFAULTS = [None, None, "", "there", "Gäste & Co", 'a "b" \\ c', " spaced  out "]
LANGUAGES = ["de", "de-AT", "en", "zh-Hant", "pt-BR"]
LITERALS = ["", "", " {{{{plan}}", " { } }}", " 100 %"]
PLACEHOLDER = re.compile(r"\{\{\{\{|\{\{([^{}|]*)(?:\|([^{}]*))?\}\}")


@dataclasses.dataclass(frozen=True)
class Personal:
    """The versions of a message: pairs of a language, None for the default, and the text of its payload."""

    versions: tuple


def random_message(dice, number, seed):
    """The text of a message as a producer gives it, and what it is."""
    languages = dice.sample(LANGUAGES, dice.choice([0, 0, 1, 2, 4]))
    contents = {language: random_content(dice, number, seed) for language in [None, *languages]}
    versions = tuple((language, json.dumps(content)) for language, content in contents.items())
    default = contents.pop(None)
    whole = {"default": default, "languages": contents} if contents else default
    return json.dumps(whole, ensure_ascii=dice.random() < 0.5), Personal(versions)


def random_content(dice, number, seed):
    alert = random_text(dice)
    if dice.random() < 0.5:
        alert = {"title": random_text(dice), "body": alert}
    content = {"aps": {"alert": alert, "badge": dice.randint(0, 9)}, "number": number, "seed": seed}
    if dice.random() < 0.3:
        content["more"] = [1.5, {"of a list": random_text(dice)}, None]
    return content


def random_text(dice):
    words = [dice.choice(["Hi ", "Grüße, ", '"', "🎉", "\\"])]
    for _ in range(dice.choice([0, 1, 1, 2])):
        name, default = dice.choice(["plan", "nick", "nick", "visits", " nick "]), dice.choice(DEFAULTS)
        words += ["{{" + name + ("" if default is None else "|" + default) + "}}", dice.choice(LITERALS)]
    return "".join(words)


def version(personal, locale):
    """The text of the payload for a locale: parts are taken off its end until there is a version."""
    versions = dict(personal.versions)
    while locale:
        if locale in versions:
            return versions[locale]
        locale = locale.rpartition("-")[0]
    return versions[None]


def pushed(personal, profile):
    """What a device of which this is known gets, in a form to compare; None if it lacks something."""
    lacking = []

    def value(match):
        if match.group(0) == "{{{{":
            return "{{"
        known = profile.value(match.group(1).strip(" "))
        if known is None or known == "":
            lacking.extend([] if match.group(2) is not None else [match.group(1)])
            return (match.group(2) or "").strip(" ")
        return known if isinstance(known, str) else json.dumps(known)

    def replaced(part):
        if isinstance(part, str):
            return PLACEHOLDER.sub(value, part)
        if isinstance(part, list):
            return [replaced(item) for item in part]
        if isinstance(part, dict):
            return {name: replaced(item) for name, item in part.items()}
        return part

    content = replaced(json.loads(version(personal, profile.locale)))
    return None if lacking else comparable(content)


def comparable(content):
    return json.dumps(content, sort_keys=True)


def number_of(body):
    """The number that a push carries; None for one that is none."""
    try:
        content = json.loads(body)
    except ValueError:
        return None
    return content.get("number") if isinstance(content, dict) else None
