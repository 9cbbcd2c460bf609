# make demo    tune two arms, test them, judge, print where the report is (40 to 56 small models)
# make test    lint, types and tests; about 10 minutes on 2 cores
# make check   that, and the slow tests
# make results the README's tables, from the reports in results/
# make mutants do the tests see a fault? a sample: N=400 SEED=0 FULL=1 FILES=a.py,b.py WORKERS=2
# make bench   speed and overhead as ratios, the calibration, the scale, 200 kills: 1½ hours
PYTHON ?= python3
bin := .venv/bin

.PHONY: demo test check results mutants bench
demo: .venv/installed
	sweep=multirun/demo/$$(date +%Y-%m-%d_%H-%M-%S) && \
	$(bin)/python train.py -m experiment=lag_bias hydra.sweep.dir=$$sweep && \
	$(bin)/python analyze.py $$sweep

test: .venv/installed-dev
	$(bin)/ruff check .
	$(bin)/ruff format --check .
	$(bin)/mypy .
	$(bin)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

check: test
	$(bin)/pytest -m slow

results: .venv/installed
	$(bin)/python results/tables.py

N ?= 400
SEED ?= 0
WORKERS ?= 0
mutants: .venv/installed-dev
	$(bin)/python -m benchmarks.mutants --n $(N) --seed $(SEED) --workers $(WORKERS) \
		--files "$(FILES)" $(if $(FULL),--full)

bench: .venv/installed
	$(bin)/python benchmarks/overhead.py
	$(bin)/python benchmarks/calibration.py
	$(bin)/python benchmarks/lag_bias.py
	$(bin)/python benchmarks/scale.py
	$(bin)/python benchmarks/faults.py
	$(bin)/python benchmarks/faults.py --tuned
	$(bin)/python benchmarks/noise.py

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/installed: requirements.txt | .venv/bin/python
	$(bin)/python -m pip install --quiet -r requirements.txt
	touch $@

.venv/installed-dev: requirements.txt requirements-cluster.txt requirements-dev.txt | .venv/bin/python
	$(bin)/python -m pip install --quiet -r requirements-dev.txt
	touch $@ .venv/installed
