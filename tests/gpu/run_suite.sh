#!/bin/sh
# Runs every test on a machine without pip; see README.md beside this file.
# usage: tests/gpu/run_suite.sh [FOLDER OF CARRIED PACKAGES] [WORDS FOR PYTEST...]
set -eu
cd "$(dirname "$0")/../.."
carried=${1:-.venvs/gpu}
test $# -eq 0 || shift
test -d "$carried/xdist" || { echo "$carried holds no pytest-xdist: make it as tests/gpu/README.md says, and carry it here" >&2; exit 2; }
carried=$(cd "$carried" && pwd)

# stands in for an installed flopsight: the command on PATH, the name and the plugin for importlib.metadata
installed=$(mktemp -d)
trap 'rm -rf "$installed"' EXIT
python=$(command -v "${PYTHON:-python3}")
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/flopsight/__init__.py)
mkdir "$installed/bin" "$installed/flopsight-$version.dist-info"
printf '#!/bin/sh\nexec "%s" -m flopsight "$@"\n' "$python" > "$installed/bin/flopsight"
chmod +x "$installed/bin/flopsight"
printf 'Metadata-Version: 2.1\nName: flopsight\nVersion: %s\n' "$version" > "$installed/flopsight-$version.dist-info/METADATA"
printf '[pytest11]\nflopsight = flopsight.integrations.pytest_plugin\n' > "$installed/flopsight-$version.dist-info/entry_points.txt"
export PATH="$installed/bin:$PATH" PYTHONPATH="$PWD/src:$carried:$installed" PYTHONUNBUFFERED=1

missing=$("$python" -c 'import importlib.util as u; print(*[n for n in ("torch", "numpy", "pytest", "hypothesis", "rich") if not u.find_spec(n)])')
test -z "$missing" || { echo "$python lacks: $missing" >&2; exit 2; }
"$python" -c 'import platform, torch; n = torch.cuda.device_count(); print("Python", platform.python_version(), "torch", torch.__version__, *[torch.cuda.get_device_name(i) for i in range(n)] or ["no GPU"])'
workers="-n ${WORKERS:-auto} --dist loadfile"
test $# -eq 0 || { "$python" -m pytest $workers -r fEs "$@"; exit; }
failed=0
"$python" -m pytest $workers -r fEs --ignore tests/gpu || failed=$?
"$python" -m pytest -r fEs tests/gpu || failed=$?  # alone: what measures a device has it for itself
exit $failed
