"""What the columns of the samples mean, file by file, in the order in which they are written."""

from __future__ import annotations

_NULL_LIKE_OCCUPATION = "null as occupation is"
_PLACE = {"district": "code of the household's district"}

COLUMNS: dict[str, dict[str, str]] = {
    "census": {
        "person_id": "whole number from 1, different for everybody",
        "household_id": "whole number from 1; members of a household are in successive rows",
        "meshblock": "code of the smallest area, for instance `M0000042`",
        "age": "completed years, 0 to 101",
        "sex": "`M` or `F`",
        "status": "`student` (children too), `employed`, `unemployed`, `retired`, `other`",
        "income": "tenth of personal income, 1 lowest to 10 highest; 0 for none, and under 15",
    },
    "households": {
        "person_id": "whole number from 1",
        "household_id": "whole number from 1",
        **_PLACE,
        "role": "`reference` (one in each household), `partner`, `child`, `parent`, `other`",
        "sex": "`M` or `F`",
        "age": "completed years, 0 to 101",
        "marital": "`single`, `married`, `widowed`, `divorced`; null under 15",
        "birthplace": "`here`, `neighbour`, `elsewhere`, `unknown`",
        "education": "level 0 to 8 of ISCED; null under 15, and if not stated",
        "status": "`student` (children too), `employed`, `unemployed`, `retired`, `other`",
        "occupation": "sub-major group of ISCO-08, for instance `OC23`; null without work, and if not stated",
        "industry": f"section of ISIC Rev. 4, `A` to `U`; {_NULL_LIKE_OCCUPATION}",
        "hours": f"usual hours a week, a few odd, such as 0 and 168; {_NULL_LIKE_OCCUPATION}",
        "income": "of the year; null under 15, and of 4 % of the others; a few odd",
    },
    "households: homes": {
        "household_id": "as of the persons",
        **_PLACE,
        "tenure": "`owned`, `mortgaged`, `rented`, `social`, `free`, `institution`",
        "dwelling": "`house`, `terrace`, `flat`, `other`",
        "rooms": "1 to 7; null in institutions",
    },
    "labour": {
        **dict.fromkeys(("person_id", "household_id", "district", "sex"), "as of households"),
        "age": "completed years",
        "education": "as of households",
        "status": "`employed`, `unemployed`, `outside`; null under 15",
        "position": "of those who work: `employee`, `self-employed`, `family`",
        **dict.fromkeys(("occupation", "industry", "hours"), "as of households"),
        "pay": "of employees, a month; 12 % do not say, and a few answers are odd",
        "months": "of the unemployed: how long without work",
        "weight": "persons that a respondent stands for, 20 to 400; larger where fewer answer",
    },
    "hospital": {
        "stay_id": "whole number from 1",
        "patient_id": "whole number from 1; 1 to 60 stays, one in forty more than ten",
        "sex": "of the patient",
        "born": "day of birth; null for one in five hundred",
        "district": "where the patient lives",
        "hospital": "for instance `H007`; mostly the nearest",
        "admission": "`emergency`, `planned`, `maternity`, `birth`",
        "admitted": "day; stays of a patient do not overlap",
        "discharged": "day; null of those still there at the end of 2025",
        "nights": "from one to the other; null as discharged is",
        "diagnosis": "block of the ICD-10, for instance `I20-I25`; some only of one sex",
        "outcome": "`home`, `transferred`, `care`, `died`; null as discharged is",
        "cost": "null of one in a hundred; a few odd",
    },
    "health": {
        "visit_id": "whole number from 1, different for every visit",
        "patient_id": "whole number from 1; 1 to 60 visits, most have one",
        **dict.fromkeys(("age", "sex"), "of the patient, the same at every visit"),
        "district": "code of the patient's district, for instance `D007`",
        "chapter": "chapter of the main diagnosis in the ICD-10, `I` to `XXII`",
        "month": "month of the visit, `2025-01` to `2025-12`",
        "stay": "nights in hospital, 0 for a day case, at most 180",
    },
}
"""Kind of sample (``households: homes`` for its second file) -> column -> what it means."""
