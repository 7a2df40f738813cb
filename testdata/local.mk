# testdata: see docs/architecture.md
