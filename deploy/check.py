"""Holds the manifests against the schemas of Kubernetes (of the package kubernetes-validate), and against one another.

What a schema cannot know is checked here: the variables from which a rank reads that it is one, that they agree with
the Job, and that pod 0 has the name that MASTER_ADDR says. A JobSet is not part of Kubernetes: its jobs are held against
the schema of a Job, its own fields against the list below, taken from jobset.x-k8s.io/v1alpha2.
"""

import pathlib
import sys

import kubernetes_validate
import yaml

FOLDER = pathlib.Path(__file__).parent
JOBSET_SPEC = {"network", "failurePolicy", "replicatedJobs", "successPolicy", "startupPolicy", "suspend", "coordinator",
               "managedBy", "ttlSecondsAfterFinished", "volumeClaimPolicies"}
NETWORK = {"enableDNSHostnames", "publishNotReadyAddresses", "subdomain"}
FAILURE_POLICY = {"maxRestarts", "restartStrategy", "rules"}
REPLICATED_JOB = {"name", "replicas", "template", "dependsOn", "groupName"}


def require(condition, sentence):
    if not condition:
        sys.exit(f"deploy: {sentence}")


def require_fields(found, known, where):
    require(set(found) <= known, f"{where} has the unknown fields {sorted(set(found) - known)}")


def validate(document):
    kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def check_ranks(job, first_pod):
    spec = job["spec"]
    pod = spec["template"]["spec"]
    require(spec["completionMode"] == "Indexed", "the Job must be Indexed")
    require(spec["completions"] == spec["parallelism"], "all ranks must run at once")
    require(pod["securityContext"]["runAsNonRoot"], "the pod must not run as root")
    container = pod["containers"][0]
    variables = {one["name"]: one for one in container["env"]}
    index = variables["RANK"]["valueFrom"]["fieldRef"]["fieldPath"]
    require(index == "metadata.annotations['batch.kubernetes.io/job-completion-index']", f"RANK is {index}")
    require(variables["WORLD_SIZE"]["value"] == str(spec["completions"]), "WORLD_SIZE must be the number of pods")
    require(variables["MASTER_ADDR"]["value"] == first_pod, f"MASTER_ADDR must be {first_pod}")
    require("secretKeyRef" in variables["TESSERA_JOB_SECRET"]["valueFrom"], "the secret must come from a Secret")
    require("command" not in container, "the image's entry point must stay, so that SIGTERM reaches the program")


def by_kind(name):
    documents = list(yaml.safe_load_all((FOLDER / name).read_text()))
    return {document["kind"]: document for document in documents}


def check_indexed_job():
    documents = by_kind("indexed-job.yaml")
    for document in documents.values():
        validate(document)
    job, service = documents["Job"], documents["Service"]
    name = job["metadata"]["name"]
    require(service["spec"]["selector"] == {"job-name": name}, "the Service must select the Job's pods")
    require(service["spec"]["clusterIP"] == "None", "the Service must be headless")
    subdomain = job["spec"]["template"]["spec"]["subdomain"]
    require(subdomain == service["metadata"]["name"], "the pods' subdomain must be the Service")
    check_ranks(job, f"{name}-0.{subdomain}")


def check_jobset():
    documents = by_kind("jobset.yaml")
    validate(documents["Secret"])
    jobset = documents["JobSet"]
    spec = jobset["spec"]
    require(jobset["apiVersion"] == "jobset.x-k8s.io/v1alpha2", "the JobSet must be v1alpha2")
    require_fields(spec, JOBSET_SPEC, "the JobSet")
    require_fields(spec["network"], NETWORK, "its network")
    require_fields(spec["failurePolicy"], FAILURE_POLICY, "its failurePolicy")
    require(len(spec["replicatedJobs"]) == 1, "all ranks must be of one Job")
    replicated = spec["replicatedJobs"][0]
    require_fields(replicated, REPLICATED_JOB, "its job")
    require(replicated["replicas"] == 1, "there must be one Job of all ranks")
    name = f"{jobset['metadata']['name']}-{replicated['name']}-0"
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, **replicated["template"]}
    validate(job)
    check_ranks(job, f"{name}-0.{spec['network']['subdomain']}")


check_indexed_job()
check_jobset()
print("deploy: the manifests are valid")
