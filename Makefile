# One-word tasks for contributors; see CONTRIBUTING.md. They run in the active environment.

.PHONY: install lint format types test slow docs gate

install:  ## Install the package with everything that the other tasks need
	pip install -e '.[test,parity,docs,dev]'

lint:  ## Check style
	ruff check .
	ruff format --check .

format:  ## Fix style
	ruff check --fix .
	ruff format .

types:  ## Check types
	mypy

test:  ## Run the quick tests
	pytest -n 2 --dist loadfile -m 'not slow'

slow:  ## Run the slow tests
	pytest -n 2 --dist loadfile -m slow

docs:  ## Build the documentation into site/
	mkdocs build --strict

gate:  ## Do everything that must pass before a change is merged, in a fresh environment
	.ci/run
