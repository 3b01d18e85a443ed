"""Blocks of the ICD-10 below its chapters (World Health Organization, version 2019), the commoner ones.

A block is its code, its name, how often it occurs in its chapter, and ``M`` or ``F`` where only men or only
women have it. The weights were set by hand to look plausible; they are no estimate of any country.
"""

from __future__ import annotations

BLOCKS: dict[str, tuple[tuple[str, str, float, str], ...]] = {
    "I": (
        ("A00-A09", "Intestinal infectious diseases", 40, ""),
        ("A30-A49", "Other bacterial diseases", 32, ""),
        ("B00-B09", "Viral infections of skin and mucous membranes", 8, ""),
        ("B25-B34", "Other viral diseases", 20, ""),
    ),
    "II": (
        ("C15-C26", "Malignant neoplasms of digestive organs", 22, ""),
        ("C30-C39", "Malignant neoplasms of respiratory and intrathoracic organs", 12, ""),
        ("C43-C44", "Melanoma and other malignant neoplasms of skin", 10, ""),
        ("C50-C50", "Malignant neoplasm of breast", 14, "F"),
        ("C51-C58", "Malignant neoplasms of female genital organs", 6, "F"),
        ("C60-C63", "Malignant neoplasms of male genital organs", 10, "M"),
        ("C64-C68", "Malignant neoplasms of urinary tract", 9, ""),
        ("C81-C96", "Malignant neoplasms of lymphoid, haematopoietic and related tissue", 12, ""),
        ("D10-D36", "Benign neoplasms", 22, ""),
    ),
    "III": (
        ("D50-D53", "Nutritional anaemias", 40, ""),
        ("D60-D64", "Aplastic and other anaemias", 35, ""),
        ("D65-D69", "Coagulation defects, purpura and other haemorrhagic conditions", 25, ""),
    ),
    "IV": (
        ("E00-E07", "Disorders of thyroid gland", 18, ""),
        ("E10-E14", "Diabetes mellitus", 42, ""),
        ("E65-E68", "Obesity and other hyperalimentation", 15, ""),
        ("E70-E90", "Metabolic disorders", 25, ""),
    ),
    "V": (
        ("F00-F09", "Organic, including symptomatic, mental disorders", 14, ""),
        ("F10-F19", "Mental and behavioural disorders due to psychoactive substance use", 30, ""),
        ("F20-F29", "Schizophrenia, schizotypal and delusional disorders", 16, ""),
        ("F30-F39", "Mood [affective] disorders", 24, ""),
        ("F40-F48", "Neurotic, stress-related and somatoform disorders", 16, ""),
    ),
    "VI": (
        ("G20-G26", "Extrapyramidal and movement disorders", 12, ""),
        ("G40-G47", "Episodic and paroxysmal disorders", 62, ""),
        ("G50-G59", "Nerve, nerve root and plexus disorders", 26, ""),
    ),
    "VII": (
        ("H25-H28", "Disorders of lens", 65, ""),
        ("H30-H36", "Disorders of choroid and retina", 20, ""),
        ("H40-H42", "Glaucoma", 15, ""),
    ),
    "VIII": (
        ("H65-H75", "Diseases of middle ear and mastoid", 55, ""),
        ("H80-H83", "Diseases of inner ear", 45, ""),
    ),
    "IX": (
        ("I10-I15", "Hypertensive diseases", 9, ""),
        ("I20-I25", "Ischaemic heart diseases", 28, ""),
        ("I26-I28", "Pulmonary heart disease and diseases of pulmonary circulation", 4, ""),
        ("I30-I52", "Other forms of heart disease", 32, ""),
        ("I60-I69", "Cerebrovascular diseases", 15, ""),
        ("I80-I89", "Diseases of veins, lymphatic vessels and lymph nodes", 12, ""),
    ),
    "X": (
        ("J00-J06", "Acute upper respiratory infections", 16, ""),
        ("J09-J18", "Influenza and pneumonia", 30, ""),
        ("J20-J22", "Other acute lower respiratory infections", 16, ""),
        ("J30-J39", "Other diseases of upper respiratory tract", 16, ""),
        ("J40-J47", "Chronic lower respiratory diseases", 22, ""),
    ),
    "XI": (
        ("K20-K31", "Diseases of oesophagus, stomach and duodenum", 20, ""),
        ("K35-K38", "Diseases of appendix", 10, ""),
        ("K40-K46", "Hernia", 22, ""),
        ("K50-K52", "Noninfective enteritis and colitis", 10, ""),
        ("K55-K64", "Other diseases of intestines", 20, ""),
        ("K80-K87", "Disorders of gallbladder, biliary tract and pancreas", 18, ""),
    ),
    "XII": (
        ("L00-L08", "Infections of the skin and subcutaneous tissue", 60, ""),
        ("L60-L75", "Disorders of skin appendages", 15, ""),
        ("L80-L99", "Other disorders of the skin and subcutaneous tissue", 25, ""),
    ),
    "XIII": (
        ("M00-M25", "Arthropathies", 50, ""),
        ("M40-M54", "Dorsopathies", 28, ""),
        ("M60-M79", "Soft tissue disorders", 16, ""),
        ("M80-M94", "Osteopathies and chondropathies", 6, ""),
    ),
    "XIV": (
        ("N17-N19", "Renal failure", 24, ""),
        ("N20-N23", "Urolithiasis", 16, ""),
        ("N30-N39", "Other diseases of urinary system", 24, ""),
        ("N40-N51", "Diseases of male genital organs", 24, "M"),
        ("N60-N64", "Disorders of breast", 6, ""),
        ("N70-N77", "Inflammatory diseases of female pelvic organs", 8, "F"),
        ("N80-N98", "Noninflammatory disorders of female genital tract", 30, "F"),
    ),
    "XV": (
        ("O00-O08", "Pregnancy with abortive outcome", 14, "F"),
        ("O20-O29", "Other maternal disorders predominantly related to pregnancy", 16, "F"),
        (
            "O30-O48",
            "Maternal care related to the fetus, amniotic cavity and possible delivery problems",
            22,
            "F",
        ),
        ("O60-O75", "Complications of labour and delivery", 28, "F"),
        ("O80-O84", "Delivery", 20, "F"),
    ),
    "XVI": (
        ("P05-P08", "Disorders related to length of gestation and fetal growth", 45, ""),
        ("P20-P29", "Respiratory and cardiovascular disorders specific to the perinatal period", 35, ""),
        ("P50-P61", "Haemorrhagic and haematological disorders of fetus and newborn", 20, ""),
    ),
    "XVII": (
        ("Q20-Q28", "Congenital malformations of the circulatory system", 40, ""),
        ("Q35-Q37", "Cleft lip and cleft palate", 15, ""),
        ("Q65-Q79", "Congenital malformations of the musculoskeletal system", 45, ""),
    ),
    "XVIII": (
        ("R00-R09", "Symptoms and signs involving the circulatory and respiratory systems", 38, ""),
        ("R10-R19", "Symptoms and signs involving the digestive system and abdomen", 32, ""),
        ("R50-R69", "General symptoms and signs", 30, ""),
    ),
    "XIX": (
        ("S00-S09", "Injuries to the head", 24, ""),
        ("S50-S59", "Injuries to the elbow and forearm", 14, ""),
        ("S70-S79", "Injuries to the hip and thigh", 18, ""),
        ("S80-S89", "Injuries to the knee and lower leg", 18, ""),
        ("T36-T50", "Poisoning by drugs, medicaments and biological substances", 8, ""),
        ("T80-T88", "Complications of surgical and medical care", 18, ""),
    ),
    "XX": (("W00-W19", "Falls", 70, ""), ("V01-V99", "Transport accidents", 30, "")),
    "XXI": (
        ("Z00-Z13", "Persons encountering health services for examination and investigation", 30, ""),
        ("Z30-Z39", "Persons encountering health services in circumstances related to reproduction", 20, ""),
        ("Z40-Z54", "Persons encountering health services for specific procedures and health care", 50, ""),
    ),
    "XXII": (("U00-U49", "Provisional assignment of new diseases of uncertain etiology", 1, ""),),
}
