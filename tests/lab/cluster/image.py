"""Writes a one-layer container image archive to stdout: image.py NAME LAYER.tar USER ENTRYPOINT..."""
import hashlib, io, json, sys, tarfile

name, layer, user, *entrypoint = sys.argv[1:]
with open(layer, "rb") as f:
    digest = hashlib.file_digest(f, "sha256").hexdigest()
config = json.dumps({"architecture": "amd64", "os": "linux",
    "config": {"User": user, "Entrypoint": entrypoint, "Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]},
    "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]}}).encode()
files = {"config.json": config, "manifest.json": json.dumps(
    [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()}
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as t:
    for path, body in files.items():
        info = tarfile.TarInfo(path)
        info.size = len(body)
        t.addfile(info, io.BytesIO(body))
    t.add(layer, "layer.tar")
