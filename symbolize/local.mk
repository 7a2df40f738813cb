# symbolize: see docs/architecture.md
