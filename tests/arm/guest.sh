#!/usr/bin/env bash
# guest.sh DIR: an aarch64 Python with numpy, llvmlite and pytest in DIR, and DIR/python, which runs it under qemu-user.
#
# Takes the arm64 Python of this Debian's own mirror (unpacked, not installed) and aarch64 wheels of the versions of this
# host's Python ($PYTHON).  No root, no chroot, no binfmt.  Some 100 MB are fetched; a second call does nothing.
# qemu obeys QEMU_CPU (cortex-a72, cortex-a76, max) and QEMU_PAGESIZE; GUEST_PATH stands for PYTHONPATH.
set -eEuo pipefail
host_python=$(command -v "${PYTHON:-python3}")
mkdir -p "$1"; dir=$(cd "$1" && pwd); root=$dir/root; site=$dir/site
command -v qemu-aarch64 >/dev/null || { echo "guest.sh needs qemu-aarch64 (Debian's package qemu-user)" >&2; exit 1; }

unpack_debian() {
  local apt=$dir/apt mirror suite deb
  read -r suite mirror < <(apt-get indextargets --format '$(ORIGIN) $(CREATED_BY) $(CODENAME) $(REPO_URI)' |
    sed -n 's/^Debian Packages \([a-z]*\) /\1 /p' | head -1)
  rm -rf "$root" "$apt"; mkdir -p "$apt"/{lists,archives}/partial "$root"/usr/{lib,bin,sbin}
  for folder in lib bin sbin; do ln -s usr/$folder "$root/$folder"; done
  echo "deb [arch=arm64 signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main" >"$apt/sources.list"
  : >"$apt/status"
  local options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Install-Recommends=false
    -o APT::Sandbox::User="$(id -un)" -o Acquire::Languages=none -o Debug::NoLocking=1 -o Dir::State="$apt"
    -o Dir::State::status="$apt/status" -o Dir::Cache="$apt" -o Dir::Etc::sourcelist="$apt/sources.list"
    -o Dir::Etc::sourceparts=/dev/null)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" -y --download-only install python3 libgcc-s1 libstdc++6
  for deb in "$apt"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink --exclude='./usr/share'
  done
  rm -rf "$apt"
}

fetch_wheels() {
  local version pins
  version=$(qemu-aarch64 -L "$root" "$root/usr/bin/python3" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  pins=$("$host_python" -c 'from importlib.metadata import version
print(*(f"{name}=={version(name)}" for name in ("numpy", "llvmlite", "psutil", "gguf", "pytest")))')
  rm -rf "$site"
  "$host_python" -m pip install -q --target "$site" --implementation cp --python-version "$version" --only-binary=:all: \
    --platform manylinux2014_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux_2_28_aarch64 $pins
}

write_python() {
  cat >"$dir/python" <<X
#!/usr/bin/env bash
ulimit -c 0
unset PYTHONDONTWRITEBYTECODE  # importing numpy takes 4 s without its bytecode
export PYTHONPYCACHEPREFIX=$dir/pyc PYTHONPATH=\${GUEST_PATH:+\$GUEST_PATH:}$site PYTHONSAFEPATH=1
exec qemu-aarch64 -L "$root" "$root/usr/bin/python3" "\$@"
X
  chmod +x "$dir/python"
}

exec 3>&2 >>"$dir/log" 2>&1
trap 'tail -20 "$dir/log" >&3' ERR
for step in unpack_debian fetch_wheels write_python; do
  [ -e "$dir/.$step" ] || { "$step"; touch "$dir/.$step"; }
done
"$dir/python" -c 'import platform, llvmlite.binding, numpy; assert platform.machine() == "aarch64"'
