# SPDX-License-Identifier: MIT
"""An image, for all processors, of the installed tree alone, as a tar file of an OCI
image layout. `COPY --from=uaio:VERSION / /` in a Dockerfile is the whole
installation."""
import gzip
import hashlib
import json
import os
import time

from tree import Entry, tar

PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64"}
MEDIA = "application/vnd.oci.image."


class Layout:
    def __init__(self):
        self.entries = {}

    def add(self, kind, data):
        """Store a blob. Return: what describes it."""
        digest = hashlib.sha256(data).hexdigest()
        self.entries[digest] = Entry(f"blobs/sha256/{digest}", data)
        return {"mediaType": MEDIA + kind, "digest": "sha256:" + digest,
                "size": len(data)}

    def add_json(self, kind, value):
        return self.add(kind, dump(value))


def dump(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def add_image(layout, release, arch, tree):
    platform = {"architecture": PLATFORMS[arch], "os": "linux"}
    files = [entry for entry in tree
             if entry.path.startswith(("bin/", "lib/", "share/uaio/"))
             and "/pkgconfig/" not in entry.path]
    layer = tar(files, release.date, "usr/local/")
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(release.date))
    config = layout.add_json("config.v1+json", {
        **platform,
        "created": created,
        "config": {"Entrypoint": ["/usr/local/bin/uaio"],
                   "Env": ["PATH=/usr/local/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [
            "sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": created, "created_by": "make dist"}],
    })
    manifest = layout.add_json("manifest.v1+json", {
        "schemaVersion": 2,
        "mediaType": MEDIA + "manifest.v1+json",
        "config": config,
        "layers": [layout.add("layer.v1.tar+gzip",
                              gzip.compress(layer, mtime=0))],
    })
    return manifest | {"platform": platform}


def make(release, trees):
    layout = Layout()
    index = layout.add_json("index.v1+json", {
        "schemaVersion": 2,
        "mediaType": MEDIA + "index.v1+json",
        "manifests": [add_image(layout, release, arch, tree)
                      for arch, tree in trees.items()],
    })
    index["annotations"] = {
        "org.opencontainers.image.ref.name": f"uaio:{release.version}",
    }
    entries = [
        Entry("index.json", dump({
            "schemaVersion": 2,
            "mediaType": MEDIA + "index.v1+json",
            "manifests": [index],
        })),
        Entry("oci-layout", dump({"imageLayoutVersion": "1.0.0"})),
        *layout.entries.values(),
    ]
    entries.sort(key=lambda entry: entry.path)
    with open(os.path.join(release.out, f"uaio-{release.version}-oci.tar"),
              "wb") as file:
        file.write(tar(entries, release.date))
