# SPDX-License-Identifier: MIT
"""schemas.py BUILD: examples/deploy has what Kubernetes and Compose accept.

The schemas are those of the API, with which nothing else may be there, for an old and a
new Kubernetes, and the specification of Compose. That the examples do what they are for,
test/run/deploy.py tests.
"""
import copy
import glob
import json
import os
import subprocess
import sys
import zipfile

import jsonschema
import yaml

SOURCE = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../..")
VERSIONS = "1.25.0", "1.37.0"


def fetched(build, package):
    place = subprocess.run(
        [os.path.join(SOURCE, "tools/fetch-schemas"),
         os.path.join(build, "test/oracle/schemas")],
        check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    [path] = glob.glob(os.path.join(place, package + "-*.whl"))
    return zipfile.ZipFile(path)


def example(name):
    with open(os.path.join(SOURCE, "examples/deploy", name)) as file:
        return yaml.safe_load(file)


def validator_of(draft, archive, folder, name):
    def load(uri):
        return json.loads(archive.read(folder + uri.rpartition("/")[2]))

    schema = load(name)
    # They refer to each other by addresses of the network, and are all here.
    resolver = jsonschema.RefResolver(schema.get("$id", ""), schema,
                                      handlers={"https": load})
    return draft(schema, resolver=resolver)


def check(validator, name, spoil):
    """The example is valid, and no longer is once it is spoiled."""
    document = example(name)
    for error in validator.iter_errors(document):
        sys.exit(f"{name}: {list(error.absolute_path)}: {error.message}")
    spoiled = copy.deepcopy(document)
    spoil(spoiled)
    if validator.is_valid(spoiled):
        sys.exit(f"{name}: a mistake in it is not found")


def spoil_pod(document):
    document["spec"]["containers"][0]["volumeMount"] = []


def spoil_compose(document):
    document["services"]["app"]["tmp"] = "/data"


def main():
    archive = fetched(sys.argv[1], "kubernetes_validate")
    for version in VERSIONS:
        folder = ("kubernetes_validate/kubernetes-json-schema/"
                  f"v{version}-local-strict/")
        check(validator_of(jsonschema.Draft202012Validator, archive, folder,
                           "pod-v1.json"), "kubernetes.yaml", spoil_pod)
    archive = fetched(sys.argv[1], "docker_compose")
    check(validator_of(jsonschema.Draft7Validator, archive, "compose/config/",
                       "compose_spec.json"), "compose.yaml", spoil_compose)


main()
