"""Random statements: from a grammar, and from statements of the spec files with some of their words changed. Whatever
a statement says, it is accepted or rejected with an error that a user can act on."""
