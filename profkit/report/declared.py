"""What each string field of runs and results holds, which decides how it is masked.

Undeclared fields show only type and length.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping


class Kind(enum.Enum):
    """What a string field holds; the value names the `TextMask` method that masks one text, if any."""

    UNDECLARED = "hidden"
    #: An identifier that profkit computes and no file holds; shown unchecked.
    OWN = "own"
    #: The name of a function, range, thread or library: shown without known private texts and secrets.
    NAME = "name"
    #: The name of a machine, interpreter, library or setting: like `NAME`, but never a pseudonym.
    LABEL = "label"
    #: A file that the user named: its base name, masked like `NAME`.
    FILE = "user_file"
    PLACE = "place"
    HOST = "host"
    USER = "user"
    JOB = "job"
    #: Another program of the machine, its container, job or unit: hidden in posted reports.
    PROGRAM = "program"
    COMMAND = "command"
    #: Words of a command without its program, such as an option's values; only in lists.
    WORDS = "one_word"
    #: Environment variables: by name, or ``NAME=value``.
    ENVIRONMENT = "environment"
    #: Another program's message, such as an error.
    MESSAGE = "message"
    #: A distribution's version, with its origin after an ``@``.
    VERSION = "version"


PYTHON = re.compile(r"\d{1,2}(?:\.\d{1,3}){0,2}(?:(?:a|b|c|rc)\d{1,2})?[+t]{0,2}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?")
HASH = re.compile(r"[0-9a-f]{0,64}")
_REVISION = re.compile(r"[0-9a-f]{7,64}")

#: Fields as ``Type.field``, and members of mappings as ``field.key``, by what they hold: a kind, or words that must
#: match a form. The form of a mapping is that of its keys.
_FIELDS: Mapping[Kind | re.Pattern[str], str] = {
    Kind.OWN: """
        Verdict.cause Verdict.rule Verdict.kind Verdict.doubts Evidence.signal Evidence.unit
        Evidence.reading Advice.kind Advice.cures Finding.rule Finding.cause Finding.bucket Finding.kind
        Checked.rule Checked.part Checked.reading Checked.operator Checked.unit Checked.threshold_id
        Account.merged Account.basis Bucket.name Part.kind Part.what Waited.what Pause.what Ranking.by
        DiffTable.match FunctionKey.root IterationModel.why_left_out IterationModel.bound
        IterationModel.batch_from Setting.kind Tried.outcome SizeCall.sets WrittenSize.sets Parameter.scale Cell.cause
        Cell.kind Objective.kind Straggler.kind Straggler.wait_state Straggler.unknown
        Limits.quota_view Library.name Library.packages
        Library.starts Library.per Library.files Honours.library Honours.version Honours.quota
        Honours.views Honours.python Honours.source Variable.name Variable.cap Size.origin Size.variable
        Crew.role Own.kind RunFacts.cause RunFacts.kind Change.cause Change.kind Tier.kind
        Launch.launcher Launch.variables
        RunReport.by RunReport.attachment DiffReport.attachment numbers.contention.who numbers.contention.kind
        numbers.blocked.on numbers.origin numbers.what
        History.metric Compared.cause Compared.kind DayShift.what DayShift.since SlowerJob.since
        SlowerFunction.since SlowerRun.day FunctionTrend.days
    """,
    Kind.NAME: """
        Thread.name RangeCalls.strings Ranges.strings Window.name Verdict.subject Verdict.numbers
        Evidence.baseline Evidence.candidate Evidence.subject Evidence.numbers Advice.subject
        Advice.numbers Finding.subject Finding.numbers Checked.value Part.name Waited.name
        DiffTable.name FunctionLines.name SeenLine.name RangeKey.name RangeKey.domain
        IterationModel.thread IterationModel.iteration IterationModel.loads IterationModel.computes
        IterationModel.waits IterationNames.iteration IterationNames.load IterationNames.compute
        Setting.baseline Setting.candidate Parameter.name Change.edit
        Deviation.range RangeRow.domain RangeRow.name Own.name Diagnosis.advice SlowerJob.job
        SlowerFunction.job SlowerRun.job FunctionTrend.job Trends.asked FleetHost.job ImportedPackage.package
        GpuIdle.function GpuIdle.within
    """,
    Kind.LABEL: """
        Host.system Host.cpu_model Pool.library Setting.name Limits.slurm Limits.container
        Ranks.launcher Ranks.policy Interpreter.version Interpreter.packages
        Interpreter.natives Size.packages Size.unseen
    """,
    Kind.FILE: """
        Run.path Pool.file SideSummary.label SideSummary.files Advice.files Objective.file Member.label
        Member.path Configuration.argument Compared.files Compared.named RunFacts.files
        Change.before_file Change.after_file SlowerRun.path
    """,
    Kind.PLACE: "Manifest.cwd Member.projects Interpreter.path",
    Kind.HOST: """
        Run.machines Host.name SideSummary.host ProcessNeed.host HostNeed.name Member.host
        Configuration.host RunFacts.host RankStudy.slow_host SlowerRun.host FleetHost.host
    """,
    Kind.USER: "Neighbour.user",
    Kind.JOB: "job.id",
    Kind.PROGRAM: "Neighbour.name Neighbour.group numbers.name numbers.group",
    Kind.COMMAND: """
        Process.command Manifest.command SideSummary.command Advice.argv
        Space.command Change.command Change.changed
        SweepReport.compared TuneReport.compared Member.command RunFacts.command
        DoctorReport.command Launch.command
    """,
    Kind.WORDS: "Parameter.values Parameter.words Cell.setting Space.listed Configuration.words",
    Kind.ENVIRONMENT: """
        Process.environment Pool.variable Manifest.environment SideSummary.environment
        Inventory.environment Advice.env Change.variables Configuration.environment RunFacts.environment
        numbers.variable
    """,
    Kind.MESSAGE: "Cell.problem Objective.text Objective.what DoctorReport.problem",
    Kind.VERSION: "Pool.version Manifest.packages",
    PYTHON: "Process.python SideSummary.python",
    _MOMENT: "Manifest.started Member.started RunFacts.started",
    HASH: "Profile.source_hash SeenLine.source_hash Definition.name Definition.source_hash",
    _REVISION: "Configuration.revision RunFacts.revision git.revision",
    re.compile(r"main|rank|worker|child"): "Process.role ProcessNeed.role",
    re.compile(r"exited|killed|replaced|running|ended|unknown"): "Process.exit",
    re.compile(
        r"integer|branches|vector|latency|bandwidth|bytecode [a-z]{1,20} \d{1,2}\.\d{1,3}"
        r"|zlib [\d.]{1,20}(?:[\w.-]{0,20}) deflate \d{1,9} B"
    ): "Yardstick.name",
    re.compile(r"variable|default|program"): "Pool.origin",
    re.compile(r"profkit\.run/\d{1,3}"): "Manifest.schema",
    re.compile(
        r"\d{1,4}(?:\.\d{1,4}){0,3}(?:\.?(?:a|b|rc|dev|post)\d{0,4})?(?:\+[0-9a-f]{1,12})?"
    ): "Manifest.profkit",
    re.compile(r"revision|dirty"): "Manifest.git",
    re.compile(r"id|rank|ranks|world_size|local_rank|node"): "Manifest.job",
    re.compile(r"[a-z_]*(?:time|clock|counter|monotonic|boottime)[a-z_]*"): "Manifest.clocks",
    re.compile(r"period_s|samples|cpu_s|notes"): "Manifest.sampler",
    re.compile(
        r"(?:cgroup_)?(?:busy|steal|psi_(?:io_|memory_|cpu_)?(?:some|full)|throttled)_s|throttled_periods|periods"
        r"|runnable|load|processes|threads|gpu_utilisation|gpu_memory_bytes|gpu_others|gpu_processes|[a-z]{1,12}_(?:bytes|s|count|hz|celsius)"
    ): "Series.columns",
}

_DECLARED: Mapping[str, Kind | re.Pattern[str]] = {
    field: kind for kind, names in _FIELDS.items() for field in names.split()
}


def declared(owner: str, field: str) -> Kind | re.Pattern[str]:
    """Return what a field of a type holds, a kind or a form; `Kind.UNDECLARED` if it is not in the table."""
    return _DECLARED.get(f"{owner}.{field}", Kind.UNDECLARED)
