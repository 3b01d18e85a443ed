"""What the columns of the samples mean, file by file, in the order in which they are written."""

from __future__ import annotations

_NUMBER = "whole number from 1"
_AS_HOUSEHOLDS = "as of households"

COLUMNS: dict[str, dict[str, str]] = {
    "census": {
        **dict.fromkeys(("person_id", "household_id"), _NUMBER),
        "meshblock": "code of the smallest area, such as `M0000042`",
        "age": "completed years, 0 to 101",
        "sex": "`M` or `F`",
        "status": "`student` (children too), `employed`, `unemployed`, `retired`, `other`",
        "income": "tenth of income, 1 to 10; 0 for none, and under 15",
    },
    "households": {
        **dict.fromkeys(("person_id", "household_id"), _NUMBER),
        "district": "code of the district",
        "role": "`reference` (one in each household), `partner`, `child`, `parent`, `other`",
        **dict.fromkeys(("sex", "age"), "as of census"),
        "marital": "`single`, `married`, `widowed`, `divorced`; null under 15",
        "birthplace": "`here`, `neighbour`, `elsewhere`, `unknown`",
        "education": "level 0 to 8 of ISCED; null under 15, and if not stated",
        "status": "as of census",
        "occupation": "sub-major group of ISCO-08, such as `OC23`; null without work, and if not stated",
        "industry": "section of ISIC Rev. 4, `A` to `U`; null as occupation",
        "hours": "usual hours a week; null as occupation; a few odd",
        "income": "of the year; null under 15, and of 4 % of the others; a few odd",
    },
    "households: homes": {
        **dict.fromkeys(("household_id", "district"), "as of persons"),
        "tenure": "`owned`, `mortgaged`, `rented`, `social`, `free`, `institution`",
        "dwelling": "`house`, `terrace`, `flat`, `other`",
        "rooms": "1 to 7; null in institutions",
    },
    "labour": {
        **dict.fromkeys(("person_id", "household_id", "district", "sex", "age", "education"), _AS_HOUSEHOLDS),
        "status": "`employed`, `unemployed`, `outside`; null under 15",
        "position": "of those who work: `employee`, `self-employed`, `family`",
        **dict.fromkeys(("occupation", "industry", "hours"), _AS_HOUSEHOLDS),
        "pay": "of employees, a month; 12 % null, a few odd",
        "months": "of the unemployed: how long without work",
        "weight": "persons that a respondent stands for, 20 to 400",
    },
    "hospital": {
        "stay_id": _NUMBER,
        "patient_id": "1 to 60 stays, one in forty more than ten",
        "sex": "of the patient",
        "born": "day of birth; null for one in five hundred",
        "district": "where the patient lives",
        "hospital": "such as `H007`",
        "admission": "`emergency`, `planned`, `maternity`, `birth`",
        "admitted": "day; stays of a patient do not overlap",
        "discharged": "day; null of those still there at the end of 2025",
        "nights": "from one to the other; null as discharged",
        "diagnosis": "block of the ICD-10, such as `I20-I25`",
        "outcome": "`home`, `transferred`, `care`, `died`; null as discharged",
        "cost": "null of one in a hundred; a few odd",
    },
    "health": {
        "visit_id": _NUMBER,
        "patient_id": "1 to 60 visits, most have one",
        **dict.fromkeys(("age", "sex", "district"), "of the patient"),
        "chapter": "chapter of the ICD-10, `I` to `XXII`",
        "month": "`2025-01` to `2025-12`",
        "stay": "nights, 0 for a day case, at most 180",
    },
}
"""Kind of sample (``households: homes`` for its second file) -> column -> what it means."""
