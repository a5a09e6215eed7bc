# SPDX-License-Identifier: MIT
"""Debian packages of the release's files, named as those of debian/control."""
import os
import re
import shutil
import subprocess

ARCHES = {"x86_64": "amd64", "aarch64": "arm64"}

# Which package has a file, by the beginning of its path; the first match counts.
# {lib} is the folder of the processor's libraries.
FILES = (
    ("libuaio0", "lib/libuaio.so.0", "usr/lib/{lib}/libuaio.so.0"),
    ("libuaio-dev", "lib/libuaio.so", "usr/lib/{lib}/libuaio.so"),
    ("libuaio-dev", "lib/pkgconfig/", "usr/lib/{lib}/pkgconfig/"),
    ("libuaio-dev", "include/", "usr/include/"),
    ("libuaio-dev", "share/man/man3/", "usr/share/man/man3/"),
    ("uaio", "lib/uaio/", "usr/lib/{lib}/uaio/"),
    ("uaio", "bin/", "usr/bin/"),
    ("uaio", "share/zsh/site-functions/", "usr/share/zsh/vendor-completions/"),
    ("uaio", "share/", "usr/share/"),
)


def field(paragraph, name):
    found = re.search(rf"^{name}:(.*\n(?: .*\n)*)", paragraph, re.M)
    return found and found[1].strip()


def control(release, package, arch, size):
    """The paragraph of debian/control, as the package has it."""
    with open(os.path.join(release.source, "debian/control")) as file:
        source, *paragraphs = file.read().split("\n\n")
    found = next(text + "\n" for text in paragraphs
                 if f"Package: {package}\n" in text)
    fields = {
        "Package": package,
        "Source": "uaio" if package != "uaio" else None,
        "Version": release.version,
        "Architecture": ARCHES[arch],
        "Maintainer": field(source + "\n", "Maintainer"),
        "Installed-Size": str((size + 1023) // 1024),
        "Depends": {
            "libuaio0": "libc6 (>= 2.17)",
        }.get(package, f"libuaio0 (= {release.version})"),
        "Section": field(found, "Section") or field(source + "\n", "Section"),
        "Priority": "optional",
        "Multi-Arch": field(found, "Multi-Arch"),
        "Description": field(found, "Description"),
    }
    return "".join(f"{name}: {value}\n" for name, value in fields.items()
                   if value)


def place(entry, lib):
    for package, begins, goes in FILES:
        if entry.path == begins or (begins.endswith("/") and
                                    entry.path.startswith(begins)):
            return package, goes.format(lib=lib) + entry.path[len(begins):]
    raise SystemExit(f"dist: no package has {entry.path}")


def content(entry, lib):
    if not entry.path.endswith(".pc"):
        return entry.data
    return (entry.data.replace(b"prefix=/usr/local", b"prefix=/usr")
            .replace(b"${prefix}/lib", b"${prefix}/lib/" + lib.encode()))


def write(top, path, entry, data):
    path = os.path.join(top, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if entry.link:
        os.symlink(entry.link, path)
        return
    with open(path, "wb") as file:
        file.write(data)
    # The loader needs no right to execute, and Debian gives none.
    os.chmod(path, entry.mode if "/bin/" in path or
             path.endswith("uaio-dynamic") else 0o644)


def add_pages(release, top, package):
    doc = os.path.join(top, "usr/share/doc", package)
    os.makedirs(doc)
    shutil.copy(os.path.join(release.source, "debian/copyright"),
                os.path.join(doc, "copyright"))
    with open(os.path.join(release.source, "debian/changelog"), "rb") as file:
        packed = subprocess.run(["gzip", "-9n"], check=True,
                                input=file.read(), stdout=subprocess.PIPE)
    with open(os.path.join(doc, "changelog.gz"), "wb") as file:
        file.write(packed.stdout)


def make(release, arch, entries):
    lib = f"{arch}-linux-gnu"
    folder = os.path.join(release.work, f"{arch}-debs")
    shutil.rmtree(folder, ignore_errors=True)
    sizes = {}
    for entry in entries:
        package, path = place(entry, lib)
        data = content(entry, lib)
        write(os.path.join(folder, package), path, entry, data)
        sizes[package] = sizes.get(package, 0) + len(data)
    # The command looks beside its own folder, whatever the processor.
    os.symlink(f"{lib}/uaio", os.path.join(folder, "uaio/usr/lib/uaio"))
    for package, size in sorted(sizes.items()):
        top = os.path.join(folder, package)
        add_pages(release, top, package)
        os.makedirs(os.path.join(top, "DEBIAN"))
        with open(os.path.join(top, "DEBIAN/control"), "w") as file:
            file.write(control(release, package, arch, size))
        if package == "libuaio0":
            with open(os.path.join(top, "DEBIAN/triggers"), "w") as file:
                file.write("activate-noawait ldconfig\n")
        for name, _, names in os.walk(top):
            os.chmod(name, 0o755)
            for path in [name, *(os.path.join(name, file) for file in names)]:
                os.utime(path, (release.date, release.date),
                         follow_symlinks=False)
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build",
                        top, release.out], check=True,
                       stdout=subprocess.DEVNULL)
