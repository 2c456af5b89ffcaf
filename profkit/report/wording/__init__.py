"""Every sentence of a report, made of results: verdicts, evidence, advice, the account, what moved.

The only place where numbers become text for people; a test checks that every identifier has words here.
Formats nothing for one output.
"""

from __future__ import annotations

from profkit.report.wording.accounts import BUCKET_TITLES, WAITED_FOR, bucket_title, waterfall
from profkit.report.wording.advice import advice_blocks, advice_command, advice_text
from profkit.report.wording.evidence import evidence_texts
from profkit.report.wording.explain import brief_explanation, explain_sections
from profkit.report.wording.functions import (
    SMALL_SHARE,
    WAITING_NOTE,
    display_name,
    location,
    match_text,
    moved_text,
)
from profkit.report.wording.studies import (
    LACKED,
    confirmed_verdict,
    figure,
    interval_text,
    study_notes,
    study_verdict,
)
from profkit.report.wording.verdicts import comparison_block, finding_text, summary_of, verdict_block

__all__ = [
    "BUCKET_TITLES",
    "LACKED",
    "SMALL_SHARE",
    "WAITED_FOR",
    "WAITING_NOTE",
    "advice_blocks",
    "advice_command",
    "advice_text",
    "brief_explanation",
    "bucket_title",
    "comparison_block",
    "confirmed_verdict",
    "display_name",
    "evidence_texts",
    "explain_sections",
    "figure",
    "finding_text",
    "interval_text",
    "location",
    "match_text",
    "moved_text",
    "study_notes",
    "study_verdict",
    "summary_of",
    "verdict_block",
    "waterfall",
]
