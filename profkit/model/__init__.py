"""What a profile, a function and a run *are*. Imports numpy only, and nothing else of ours."""

from profkit.model.keys import BUILTIN, GENERATED, PROJECT, ROOTS, SITE, STDLIB, FunctionKey, Roots
from profkit.model.profile import Edges, Profile, ProfileError
from profkit.model.ranges import Ranges
from profkit.model.run import (
    Host,
    Machine,
    Manifest,
    OpenCall,
    Process,
    Run,
    RunSet,
    Thread,
)

__all__ = [
    "BUILTIN",
    "GENERATED",
    "PROJECT",
    "ROOTS",
    "SITE",
    "STDLIB",
    "Edges",
    "FunctionKey",
    "Host",
    "Machine",
    "Manifest",
    "OpenCall",
    "Process",
    "Profile",
    "ProfileError",
    "Ranges",
    "Roots",
    "Run",
    "RunSet",
    "Thread",
]
