"""What somebody who works does: occupation, industry, hours and pay, given sex, schooling and place.

Occupations are the sub-major groups of ISCO-08 (International Labour Organization), industries the sections
of ISIC Rev. 4 (United Nations), with the prefixes that they have in SDMX code lists. How often each occurs
was set by hand to look plausible; it is no estimate of any country.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tabularium.lab.sample.quantile_tables import Choice, Floats, Ints

ALL_OCCUPATIONS, ALL_INDUSTRIES = "OC", "TOTAL"
NOT_STATED = ("NRP", "Not stated")


class Major(NamedTuple):
    """A major group of occupations.

    ``men`` and ``women`` are how often it occurs, ``schooling`` how much more often with each step from low
    to medium to high education, ``pay`` what it adds to the logarithm of an income, ``groups`` its sub-major
    groups with their weights, ``sections`` the industries that it is found in, the first ones most often.
    """

    code: str
    name: str
    men: float
    women: float
    schooling: float
    pay: float
    groups: tuple[tuple[str, str, float], ...]
    sections: str


MAJORS = (
    Major("OC1", "Managers", 7, 4, 1.8, 0.40, (
        ("OC11", "Chief executives, senior officials and legislators", 1),
        ("OC12", "Administrative and commercial managers", 4),
        ("OC13", "Production and specialised services managers", 5),
        ("OC14", "Hospitality, retail and other services managers", 3),
    ), "GCMKIOJQ"),
    Major("OC2", "Professionals", 15, 20, 4.5, 0.28, (
        ("OC21", "Science and engineering professionals", 4),
        ("OC22", "Health professionals", 4),
        ("OC23", "Teaching professionals", 6),
        ("OC24", "Business and administration professionals", 5),
        ("OC25", "Information and communications technology professionals", 3),
        ("OC26", "Legal, social and cultural professionals", 3),
    ), "PQMJKOCR"),
    Major("OC3", "Technicians and associate professionals", 15, 17, 1.7, 0.08, (
        ("OC31", "Science and engineering associate professionals", 5),
        ("OC32", "Health associate professionals", 4),
        ("OC33", "Business and administration associate professionals", 7),
        ("OC34", "Legal, social, cultural and related associate professionals", 2),
        ("OC35", "Information and communications technicians", 1),
    ), "QKCMOGFH"),
    Major("OC4", "Clerical support workers", 6, 14, 1.1, -0.05, (
        ("OC41", "General and keyboard clerks", 5),
        ("OC42", "Customer services clerks", 3),
        ("OC43", "Numerical and material recording clerks", 4),
        ("OC44", "Other clerical support workers", 1),
    ), "GOKHNCQM"),
    Major("OC5", "Service and sales workers", 11, 24, 0.7, -0.22, (
        ("OC51", "Personal service workers", 5),
        ("OC52", "Sales workers", 7),
        ("OC53", "Personal care workers", 5),
        ("OC54", "Protective services workers", 2),
    ), "GIQSONPR"),
    Major("OC6", "Skilled agricultural, forestry and fishery workers", 4, 2, 0.5, -0.25, (
        ("OC61", "Market-oriented skilled agricultural workers", 20),
        ("OC62", "Market-oriented skilled forestry, fishery and hunting workers", 3),
        ("OC63", "Subsistence farmers, fishers, hunters and gatherers", 1),
    ), "AAAN"),
    Major("OC7", "Craft and related trades workers", 18, 3, 0.6, 0.0, (
        ("OC71", "Building and related trades workers, excluding electricians", 6),
        ("OC72", "Metal, machinery and related trades workers", 5),
        ("OC73", "Handicraft and printing workers", 1),
        ("OC74", "Electrical and electronic trades workers", 3),
        ("OC75", "Food processing, wood working, garment and other craft workers", 3),
    ), "FCGESHBD"),
    Major("OC8", "Plant and machine operators, and assemblers", 12, 3, 0.5, -0.02, (
        ("OC81", "Stationary plant and machine operators", 4),
        ("OC82", "Assemblers", 1),
        ("OC83", "Drivers and mobile plant operators", 6),
    ), "CHCEFGBN"),
    Major("OC9", "Elementary occupations", 9, 11, 0.3, -0.40, (
        ("OC91", "Cleaners and helpers", 5),
        ("OC92", "Agricultural, forestry and fishery labourers", 1),
        ("OC93", "Labourers in mining, construction, manufacturing and transport", 4),
        ("OC94", "Food preparation assistants", 1),
        ("OC95", "Street and related sales and service workers", 0.2),
        ("OC96", "Refuse workers and other elementary workers", 2),
    ), "NCITGAFE"),
    Major("OC0", "Armed forces occupations", 0.8, 0.1, 1.0, 0.05, (
        ("OC01", "Commissioned armed forces officers", 2),
        ("OC02", "Non-commissioned armed forces officers", 4),
        ("OC03", "Armed forces occupations, other ranks", 4),
    ), "OOOO"),
)  # fmt: skip
SECTIONS = {
    "A": "Agriculture, forestry and fishing", "B": "Mining and quarrying", "C": "Manufacturing",
    "D": "Electricity, gas, steam and air conditioning supply",
    "E": "Water supply; sewerage, waste management and remediation", "F": "Construction",
    "G": "Wholesale and retail trade; repair of motor vehicles", "H": "Transportation and storage",
    "I": "Accommodation and food service activities", "J": "Information and communication",
    "K": "Financial and insurance activities", "L": "Real estate activities",
    "M": "Professional, scientific and technical activities", "N": "Administrative and support services",
    "O": "Public administration and defence", "P": "Education", "Q": "Human health and social work",
    "R": "Arts, entertainment and recreation", "S": "Other service activities",
    "T": "Activities of households as employers", "U": "Activities of extraterritorial organisations",
}  # fmt: skip
SECTORS = (("AGR", "Agriculture", "A"), ("IND", "Industry", "BCDEF"), ("SER", "Services", "GHIJKLMNOPQRSTU"))
OCCUPATIONS = tuple(code for major in MAJORS for code, _, _ in major.groups)
INDUSTRIES = tuple(SECTIONS)
LONGEST_WEEK = 98  # hours

_sex = (np.array([major.men for major in MAJORS]), np.array([major.women for major in MAJORS]))
_SLOPE = np.array([major.schooling for major in MAJORS])
_major = Choice([[*(weights * _SLOPE**step)] for weights in _sex for step in (-1.0, 0.0, 1.0)])
_FIRST = np.cumsum([0, *(len(major.groups) for major in MAJORS)])[:-1]
_WIDEST = max(len(major.groups) for major in MAJORS)
_group = Choice(
    [[*(w for _, _, w in major.groups), *[0.0] * (_WIDEST - len(major.groups))] for major in MAJORS], bits=12
)


def _section_weights(major: Major) -> list[float]:
    liked = {letter: max(0.4, 4.0 - place) for place, letter in reversed([*enumerate(major.sections)])}
    return [liked.get(letter, 0.08 if letter != "U" else 0.002) for letter in INDUSTRIES]


_section = Choice([_section_weights(major) for major in MAJORS], bits=12)
_PAY = np.array([major.pay for major in MAJORS])
_WEEKS = np.array([0, 35, 38, 40, 45, 50, 60, 70])  # 0: part of a week, drawn on its own
_week = Choice(np.array([[8, 10, 14, 48, 9, 7, 3, 1], [36, 12, 13, 32, 4, 2, 0.8, 0.2]]))


class Jobs(NamedTuple):
    """What each worker does, (workers,) arrays.

    Positions in ``OCCUPATIONS`` and ``INDUSTRIES``, below zero where not stated; usual weekly hours; and what
    occupation and hours add to the logarithm of an income.
    """

    occupation: Ints
    industry: Ints
    hours: Ints
    premium: Floats


def draw_jobs(rng: np.random.Generator, female: np.ndarray, schooling: Ints) -> Jobs:
    """Draw the jobs of workers, given sex and education (0 low, 1 medium, 2 high); (workers,) both."""
    major = _major.draw(rng, 3 * female + schooling).astype(np.int64)
    occupation = _FIRST[major] + _group.draw(rng, major).astype(np.int64)
    industry = _section.draw(rng, major).astype(np.int64)
    hours = _WEEKS[_week.draw(rng, female.astype(np.int64))]
    part = np.flatnonzero(hours == 0)
    hours[part] = rng.integers(4, 33, len(part))
    odd = np.flatnonzero(rng.random(len(hours), dtype=np.float32) < 0.0005)
    hours[odd] = rng.choice([0, 1, 96, LONGEST_WEEK, 120, 168], len(odd))  # as people answer
    effort = 0.9 * np.log(np.clip(hours, 4, 60) / 40)
    silent = rng.random(len(hours), dtype=np.float32)
    occupation[silent < 0.015] = -1
    industry[silent > 0.99] = -1
    return Jobs(occupation, industry, hours, _PAY[major] + effort)


def occupation_list() -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of the occupations: all, major groups, sub-major groups, not stated."""
    rows = [(ALL_OCCUPATIONS, "All occupations", "")]
    rows += [(major.code, major.name, ALL_OCCUPATIONS) for major in MAJORS]
    rows += [(code, name, major.code) for major in MAJORS for code, name, _ in major.groups]
    return [*rows, (*NOT_STATED, ALL_OCCUPATIONS)]


def industry_list() -> list[tuple[str, str, str]]:
    """Return (code, label, parent) of every industry: all, three sectors, sections, and not stated."""
    rows = [(ALL_INDUSTRIES, "All industries", "")]
    rows += [(code, name, ALL_INDUSTRIES) for code, name, _ in SECTORS]
    rows += [(letter, SECTIONS[letter], code) for code, _, letters in SECTORS for letter in letters]
    return [*rows, (*NOT_STATED, ALL_INDUSTRIES)]
