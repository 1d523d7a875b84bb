#!/usr/bin/env bash
# guest.sh DIR: an aarch64 Python with numpy, llvmlite and pytest in DIR, and DIR/python, which runs it under qemu-user.
#
# Takes qemu-user and the arm64 Python from this Debian's own mirrors (unpacked, not installed) and aarch64 wheels of the
# versions of this host's Python ($PYTHON).  No root, no chroot, no binfmt, and nothing of it need be on the machine.
# Some 130 MB are fetched; a second call does nothing.
# qemu obeys QEMU_CPU (cortex-a72, cortex-a76, max) and QEMU_PAGESIZE; GUEST_PATH stands for PYTHONPATH.
set -eEuo pipefail
host_python=$(command -v "${PYTHON:-python3}")
mkdir -p "$1"; dir=$(cd "$1" && pwd); root=$dir/root; site=$dir/site

# unpack ARCHITECTURE FOLDER PACKAGE...: those packages and all that they need.
unpack() {
  local architecture=$1 folder=$2 apt=$dir/apt deb
  shift 2
  rm -rf "$folder" "$apt"; mkdir -p "$apt"/{lists,archives}/partial "$folder"/usr/{lib,bin,sbin}
  for deb in lib bin sbin; do ln -s usr/$deb "$folder/$deb"; done
  : >"$apt/status"
  local options=(-q -o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Acquire::Retries=3
    -o APT::Install-Recommends=false -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none
    -o Debug::NoLocking=1 -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt")
  apt-get "${options[@]}" update
  apt-get "${options[@]}" -y --download-only install "$@"
  for deb in "$apt"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$folder" --keep-directory-symlink --exclude='./usr/share'
  done
  rm -rf "$apt"
}

unpack_qemu() { unpack "$(dpkg --print-architecture)" "$dir/qemu" qemu-user; }

unpack_python() { unpack arm64 "$root" python3 libgcc-s1 libstdc++6; }

write_python() {
  local loader
  loader=$(echo "$dir"/qemu/lib/*/ld-linux-*.so.*)
  cat >"$dir/python" <<X
#!/usr/bin/env bash
ulimit -c 0
unset PYTHONDONTWRITEBYTECODE  # importing numpy takes 4 s without its bytecode
export PYTHONPYCACHEPREFIX=$dir/pyc PYTHONPATH=\${GUEST_PATH:+\$GUEST_PATH:}$site PYTHONSAFEPATH=1
exec "$loader" --library-path "${loader%/*}" "$dir/qemu/bin/qemu-aarch64" -L "$root" "$root/usr/bin/python3" "\$@"
X
  chmod +x "$dir/python"
}

fetch_wheels() {
  local version pins
  version=$("$dir/python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  pins=$("$host_python" -c 'from importlib.metadata import version
print(*(f"{name}=={version(name)}" for name in ("numpy", "llvmlite", "psutil", "gguf", "pytest")))')
  rm -rf "$site"
  "$host_python" -m pip install -q --target "$site" --implementation cp --python-version "$version" --only-binary=:all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 $pins
}

exec 3>&2 >>"$dir/log" 2>&1
trap 'tail -20 "$dir/log" >&3' ERR
for step in unpack_qemu unpack_python write_python fetch_wheels; do
  [ -e "$dir/.$step" ] || { "$step"; touch "$dir/.$step"; }
done
"$dir/python" -c 'import platform, llvmlite.binding, numpy; assert platform.machine() == "aarch64"'
