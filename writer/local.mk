# writer: see docs/architecture.md
