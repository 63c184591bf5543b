# Benchmarks: each prints its tables and writes them to bench-out. Times are for two cores.
.PHONY: bench bench-sou bench-coverage bench-stops bench-scale bench-few bench-peers bench-explain bench-ledger bench-product bench-utilities bench-busy bench-proxy bench-cost bench-seeds bench-errors bench-attacks bench-innocents bench-chosen federated

bench: .venv/test  ## errors at an equal budget: Algorithm 1, the seven baselines and the default method
	$(PY) -m benchmarks accuracy

bench-sou: .venv/test  ## the paper's Figures 2 and 5
	$(PY) -m experiments sou

bench-coverage: .venv/test  ## coverage of the intervals, and unbiasedness
	$(PY) -m benchmarks coverage

bench-stops: .venv/test  ## coverage where runs stop at a target, on small games that are hard to see through
	$(PY) -m benchmarks stops

bench-seeds: .venv/test  ## coverage of a network's expected score over training seeds, fresh and fixed
	$(PY) -m benchmarks seeds

bench-errors: .venv/test  ## coverage of intervals that hold the error of the test rows
	$(PY) -m benchmarks errors

bench-scale: .venv/test  ## evaluations, seconds and memory up to a million players
	$(PY) -m benchmarks scale

bench-ledger: .venv/test  ## what the ledger adds to a million evaluations, in time and memory
	$(PY) benchmarks/ledger.py

bench-utilities: .venv/test  ## batched models against scikit-learn in a loop, one network at a time
	$(PY) benchmarks/utilities.py

bench-proxy: .venv/test  ## trainings of a network that a logistic proxy saves
	$(PY) -m benchmarks proxy

bench-cost: .venv/test  ## seconds to a given error where large coalitions cost more
	$(PY) -m benchmarks cost

bench-attacks: .venv/test  ## what attacks earn under six rules, and what remedies cost honest twins
	$(PY) -m benchmarks attacks

bench-busy: .venv/test  ## how busy 4, 16 and 64 workers are: threads, processes, Dask, Ray
	$(PY) -m benchmarks busy

bench-innocents: .venv/test  ## whom the search for copies accuses by chance, and which copies it finds
	$(PY) -m benchmarks innocents

bench-chosen: .venv/test  ## what a provider earns that knows the split seed and chooses its test rows
	$(PY) -m benchmarks chosen

bench-product: .venv/test  ## start-up, a file of 100,000 rows, the size of the report
	$(PY) -m benchmarks product

bench-few: .venv/test  ## the first thousand evaluations: errors beside those before and those of the best peer
	$(PY) -m benchmarks few

bench-peers: .venv-peers/installed .venv-pydvl/installed  ## shapiq and pyDVL on the games of bench-few
	.venv-peers/bin/python -m benchmarks peers --out bench-out/few_peers.json
	.venv-pydvl/bin/python -m benchmarks peers --out bench-out/few_peers.json

bench-explain: .venv-peers/installed  ## one prediction explained by fgsv, shap and shapiq
	.venv-peers/bin/python -m benchmarks explain

federated: .venv-flower/installed  ## Flower itself: its strategies under the log, and ten hospitals in its simulation
	.venv-flower/bin/python -W ignore -m pytest -W ignore tests/federated/flower
	.venv-flower/bin/python -W ignore -m experiments federated

# shapiq needs Python 3.12 and pyDVL numpy 1, and flwr older packages: each has a virtual environment of its own
PYTHON312 ?= python3.12
.venv-peers/installed: pyproject.toml
	$(PYTHON312) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --editable . 'shapiq[shapleig]==1.8.0' lightgbm xgboost-cpu 'shap==0.54.1'
	touch $@

.venv-pydvl/installed: pyproject.toml
	$(PYTHON) -m venv .venv-pydvl
	.venv-pydvl/bin/python -m pip install --quiet --editable . 'pydvl==0.10.0'
	touch $@

.venv-flower/installed: pyproject.toml
	$(PYTHON) -m venv .venv-flower
	.venv-flower/bin/python -m pip install --quiet --editable '.[flower,plots]' 'flwr[simulation]>=1.41,<1.43' pytest pytest-xdist hypothesis
	touch $@
