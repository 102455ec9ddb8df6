#!/usr/bin/env bash
# Sets up what the make targets need, and nothing twice. Usage: tools/setup.sh [run|dev|adapter|dawn|packages]
#   run       .venv with the package installed for use (the default)
#   dev       the same, with what tests and linters need
#   adapter   a Vulkan driver from Debian, where no adapter is found and the user may install
#   dawn      SwiftShader out of Debian's chromium, for the tests on Dawn
#   packages  NAME...: Debian packages that aren't installed yet
set -euo pipefail
cd "$(dirname "$0")/.."

VENV=.venv
SWIFTSHADER=/usr/lib/chromium/vk_swiftshader_icd.json

say() { printf '%s\n' "$*" >&2; }
fail() {
  say "error: $*"
  exit 2
}

# Prints how to install as this user ("", "sudo -n"); fails where apt is missing or the user may not.
as_root() {
  command -v apt-get >/dev/null || return 1
  if [ "$(id -u)" -eq 0 ]; then
    echo ""
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    echo "sudo -n"
  else
    return 1
  fi
}

packages() {
  local missing=() name prefix
  for name in "$@"; do
    dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null | grep -q ' installed$' || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  prefix=$(as_root) || return 1
  say "installing from Debian: ${missing[*]}"
  local quiet=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  # The lists may be old or absent: refresh them only where the first try fails.
  # shellcheck disable=SC2086
  $prefix "${quiet[@]}" install -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 || {
    $prefix "${quiet[@]}" update >&2
    $prefix "${quiet[@]}" install -y --no-install-recommends "${missing[@]}" >&2
  }
}

# Runs each candidate, since a version manager's shim may be on the path without a Python behind it.
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.14 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

make_venv() {
  [ ! -x "$VENV/bin/python" ] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1 || return 0
  local python
  python=$(find_python) ||
    fail "Python 3.11 or newer is needed and none was found: install it, or name it with PYTHON=/path/to/python3."
  if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
    packages python3-venv || true
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
      fail "$python can't make virtual environments: install the package python3-venv, then run make again."
  fi
  say "making $VENV with $("$python" --version) ..."
  "$python" -m venv --clear "$VENV"
}

install() {
  make_venv
  say "installing wgpu_engine into $VENV ..."
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --editable "$1" ||
    fail "pip could not install what wgpu_engine needs: see its message above; it needs the network once."
}

has_adapter() {
  "$VENV/bin/python" - <<'PYTHON' >/dev/null 2>&1
from wgpu_engine.gpu.adapters import list_adapters

raise SystemExit(not list_adapters())
PYTHON
}

adapter() {
  has_adapter && return
  if [ -r /etc/debian_version ] && packages libvulkan1 mesa-vulkan-drivers && has_adapter; then
    return
  fi
  # doctor says what is missing and how to install it on this system
  "$VENV/bin/python" -m wgpu_engine doctor >/dev/null
}

dawn() {
  [ -r "$SWIFTSHADER" ] || packages chromium || true
  [ -r "$SWIFTSHADER" ] || fail "$SWIFTSHADER is missing: install Debian's package chromium to test on Dawn."
}

case "${1:-run}" in
  run) install . ;;
  dev) install '.[dev]' ;;
  adapter) adapter ;;
  dawn) dawn ;;
  packages) packages "${@:2}" || fail "missing packages, and no right to install: apt-get install ${*:2}" ;;
  *) fail "unknown step $1: it is run, dev, adapter, dawn or packages." ;;
esac
