"""Writers of formats of other tools; each turns a `Run` or a profile into bytes."""
