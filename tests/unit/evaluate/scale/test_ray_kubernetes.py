# SPDX-License-Identifier: Apache-2.0
"""The examples for Kubernetes: what they promise, and that their schemas take them."""

import copy
import os
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from rpent_box.cli.app import app
from rpent_box.plugins import find_backend

yaml = pytest.importorskip("yaml", reason="needs PyYAML: pip install 'rpent-box[host]'")

FOLDER = Path(__file__).parents[4] / "docs" / "kubernetes"
MANIFESTS = sorted(FOLDER.glob("*.yaml"))
CRDS = "RPENT_BOX_KUBERAY_CRDS"
KUBERNETES = "1.34"
SIZES = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


@pytest.fixture(params=MANIFESTS, ids=lambda path: path.name)
def documents(request):
    found = list(yaml.safe_load_all(request.param.read_text()))
    return {document["kind"]: document for document in found}


def templates(job):
    """Return name → pod template of everything that the job starts."""
    spec = job["spec"]
    cluster = spec["rayClusterSpec"]
    groups = {group["groupName"]: group["template"] for group in cluster["workerGroupSpecs"]}
    return {
        "submitter": spec["submitterPodTemplate"],
        "head": cluster["headGroupSpec"]["template"],
        **groups,
    }


def size(text):
    number, unit = re.fullmatch(r"(\d+)([KMG]i)", text).groups()
    return int(number) * SIZES[unit]


def test_there_are_examples():
    assert [path.name for path in MANIFESTS] == ["rayjob-gpu.yaml", "rayjob.yaml"]


def test_no_pod_may_do_more_than_it_needs(documents):
    for name, template in templates(documents["RayJob"]).items():
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False, name
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert not [one for one in spec["volumes"] if "hostPath" in one]
        for container in spec["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            limits, requests = (container["resources"][one] for one in ("limits", "requests"))
            assert {"cpu", "memory"} <= set(limits)
            assert limits.get("nvidia.com/gpu") == requests.get("nvidia.com/gpu")


def test_shared_memory_is_sized_and_fits_into_the_pods_memory(documents):
    job = documents["RayJob"]["spec"]["rayClusterSpec"]
    for group in (job["headGroupSpec"], *job["workerGroupSpecs"]):
        spec = group["template"]["spec"]
        (container,) = spec["containers"]
        volumes = {one["name"]: one.get("emptyDir") for one in spec["volumes"]}
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        shared = volumes[mounts["/dev/shm"]]
        assert shared["medium"] == "Memory"
        store = int(group["rayStartParams"]["object-store-memory"])
        assert store < size(shared["sizeLimit"])
        assert size(shared["sizeLimit"]) < size(container["resources"]["limits"]["memory"])
        assert volumes[mounts["/tmp"]] is not None


def test_only_the_clusters_own_pods_and_its_operator_reach_it(documents):
    policy = documents["NetworkPolicy"]["spec"]
    label = policy["podSelector"]["matchLabels"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    for template in templates(documents["RayJob"]).values():
        assert label.items() <= template["metadata"]["labels"].items()
    for rule in policy["ingress"]:
        assert rule["from"]
        assert all("podSelector" in one for one in rule["from"])
    assert documents["RayJob"]["spec"]["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_its_command_is_one_that_this_version_has(documents):
    words = shlex.split(documents["RayJob"]["spec"]["entrypoint"])
    assert words[:2] == ["rpent-box", "eval"]
    command = typer.main.get_command(app).commands["eval"]
    known = {name for parameter in command.params for name in parameter.opts}
    given = dict(zip(words[2::2], words[3::2], strict=True))
    assert set(given) <= known
    cluster = documents["RayJob"]["spec"]["rayClusterSpec"]
    (group,) = cluster["workerGroupSpecs"]
    assert int(given["--ray-nodes"]) == group["replicas"]
    limits = group["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert ("nvidia.com/gpu" in limits) == find_backend(given["--backend"]).needs_gpu


def test_what_it_names_is_mounted_in_every_pod_that_needs_it(documents):
    cluster = documents["RayJob"]["spec"]["rayClusterSpec"]
    words = shlex.split(documents["RayJob"]["spec"]["entrypoint"])
    head, worker = (
        {one["mountPath"] for one in template["spec"]["containers"][0]["volumeMounts"]}
        for template in (
            cluster["headGroupSpec"]["template"],
            cluster["workerGroupSpecs"][0]["template"],
        )
    )
    assert words[words.index("--output") + 1] in head
    if "--checkpoint" in words:
        folder = str(Path(words[words.index("--checkpoint") + 1]).parent)
        assert {folder} <= head & worker


def test_kubernetes_takes_its_pods_claims_and_policies(documents):
    """In the strict way, in which a field that is not known is an error."""
    validate = pytest.importorskip(
        "kubernetes_validate", reason="needs schemas: pip install kubernetes-validate"
    ).validate
    plain = [document for kind, document in documents.items() if kind != "RayJob"]
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **template["metadata"]},
            "spec": template["spec"],
        }
        for name, template in templates(documents["RayJob"]).items()
    ]
    for document in (*plain, *pods):
        validate(document, KUBERNETES, strict=True)


def test_kuberay_takes_its_job(documents):
    """With the operator's own definitions, also strictly."""
    jsonschema = pytest.importorskip(
        "jsonschema", reason="needs jsonschema: pip install jsonschema"
    )
    folder = os.environ.get(CRDS)
    if not folder:
        pytest.skip(f"needs KubeRay's definitions: set {CRDS} to the folder of ray.io_rayjobs.yaml")
    definition = yaml.safe_load((Path(folder) / "ray.io_rayjobs.yaml").read_text())
    (version,) = (one for one in definition["spec"]["versions"] if one["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"])
    job = documents["RayJob"]
    jsonschema.validate(job, schema)
    wrong = copy.deepcopy(job)
    wrong["spec"]["rayClusterSpec"]["headGroupSpec"]["tempalte"] = {}
    with pytest.raises(jsonschema.ValidationError, match="tempalte"):
        jsonschema.validate(wrong, schema)


def strict(schema):
    """Return `schema` so that a field which it does not name is an error, and not dropped."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: strict(value) for name, value in schema.items()}
    is_object = isinstance(schema.get("properties"), dict) and schema.get("type") == "object"
    free = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("x-kubernetes-int-or-string"):
        found.pop("format", None)
    if is_object and not free and schema["properties"]:
        found["additionalProperties"] = False
        if schema["properties"].keys() >= {"apiVersion", "kind", "metadata"}:
            # Metadata is described for all kinds elsewhere.
            found["properties"]["metadata"] = {"type": "object"}
    return found
