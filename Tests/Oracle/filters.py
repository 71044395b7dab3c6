"""Filters of campaigns, as docs/audiences.md explains them: made up, written down, and held against a device.

A filter is a tuple: `("and", a, b)`, `("or", a, b)`, `("not", a)`, or a condition with its field, such as
`("visits", ">=", 7)`. It is never parsed here: the text is made from the tuple, so that what the server makes of the
text has to be what was meant. `("zone in", zones, default)` stands for a local time, and `("starts", type)` for what a
campaign starts; they are never written."""

import dataclasses

LOCALES = [None, "de", "de-AT", "en-GB", "zh-Hant-TW"]
VERSIONS = [None, "2.9", "2.10", "2.10.0", "3", "3.0.1"]
TAGS = ["vip", "beta", "o'neil; --", "ärger"]
PLANS = ["free", "pro", "Team"]


@dataclasses.dataclass(frozen=True)
class Profile:
    """What is known of a device: nothing, if nobody has said anything."""

    locale: str = None
    app_version: str = None
    tags: tuple = ()
    attributes: tuple = ()  # pairs of name and value
    zone: str = None  # a name of the IANA database
    activity_type: str = None  # of Live Activities that a token is for

    def value(self, name):
        return dict(self.attributes).get(name)


def random_profile(dice):
    attributes = {"plan": dice.choice([None, *PLANS]), "visits": dice.choice([None, -1, 7, 7.5, "7"])}
    return Profile(
        dice.choice(LOCALES),
        dice.choice(VERSIONS),
        tuple(tag for tag in TAGS if dice.random() < 0.4),
        tuple((name, value) for name, value in attributes.items() if value is not None),
    )


def random_filter(dice, depth=2):
    if depth and dice.random() < 0.55:
        parts = [random_filter(dice, depth - 1), random_filter(dice, depth - 1)]
        return dice.choice([("and", *parts), ("or", *parts), ("not", parts[0])])
    return dice.choice(
        [
            ("locale", dice.choice(["=", "!="]), dice.choice(["de", "de-AT", "en", "zh-Hant"])),
            ("version", dice.choice(["=", "!=", "<", "<=", ">", ">="]), dice.choice(["2.9", "2.10", "3.0"])),
            ("tag", dice.choice(TAGS)),
            ("plan in", tuple(dice.sample(PLANS, 2))),
            ("visits", dice.choice(["=", "<", ">="]), dice.choice([7, 0, "7"])),
            ("missing", dice.choice(["locale", "app_version", "tag", "attribute plan"])),
        ]
    )


def quoted(value):
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def text(tree):
    """The filter as a producer writes it."""
    match tree:
        case ("and" | "or" as word, a, b):
            return f"({text(a)} {word} {text(b)})"
        case ("not", a):
            return f"not {text(a)}"
        case ("locale", sign, value):
            return f"locale {sign} {quoted(value)}"
        case ("version", sign, value):
            return f"app_version {sign} {value}"
        case ("tag", value):
            return f"tag {quoted(value)}"
        case ("plan in", values):
            return f"attribute plan in ({', '.join(quoted(value) for value in values)})"
        case ("visits", sign, value):
            return f"attribute visits {sign} {quoted(value)}"
        case ("missing", field):
            return f"{field} is missing"
    raise AssertionError(tree)


def compare(left, sign, right):
    """Texts and numbers differ, and what is missing or of the other type is neither equal, less nor more."""
    if left is None or isinstance(left, str) != isinstance(right, str):
        return sign == "!="
    return ordered(left, sign, right)


def ordered(left, sign, right):
    return {
        "=": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[sign]


def numbers(version):
    """A part of a version that is not there is 0."""
    parts = [int(part) for part in version.split(".")]
    return parts + [0] * (8 - len(parts))


def holds(tree, profile):
    """Whether a filter holds for a device of which this is known."""
    match tree:
        case ("and", a, b):
            return holds(a, profile) and holds(b, profile)
        case ("or", a, b):
            return holds(a, profile) or holds(b, profile)
        case ("not", a):
            return not holds(a, profile)
        case ("locale", sign, value):
            is_in = profile.locale is not None and f"{profile.locale}-".startswith(f"{value}-")
            return is_in == (sign == "=")
        case ("version", sign, value):
            if profile.app_version is None:
                return sign == "!="
            return ordered(numbers(profile.app_version), sign, numbers(value))
        case ("tag", value):
            return value in profile.tags
        case ("plan in", values):
            return profile.value("plan") in values
        case ("visits", sign, value):
            return compare(profile.value("visits"), sign, value)
        case ("zone in", zones, default):
            return (profile.zone or default) in zones
        case ("starts", activity_type):
            return profile.activity_type in (None, activity_type)
        case ("missing", field):
            return {
                "locale": profile.locale is None,
                "app_version": profile.app_version is None,
                "tag": not profile.tags,
                "attribute plan": profile.value("plan") is None,
            }[field]
    raise AssertionError(tree)
