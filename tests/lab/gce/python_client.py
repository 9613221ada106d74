#!/usr/bin/env python3
"""Google's own Python client (google-cloud-compute, REST) through the life of some instances.

    python_client.py ENDPOINT PROJECT TOKEN

Ends with 0 and "all well" if the stand-in at ENDPOINT answers as that client takes Google to. Nothing
in here knows of the stand-in: it is what Google's published samples do, with assertions.
"""

import sys
import uuid

from google.api_core import exceptions
from google.auth.exceptions import RefreshError
from google.cloud import compute_v1
from google.cloud.compute_v1.services import (
    firewalls, instances, projects, regions, zone_operations, global_operations,
)
from google.oauth2.credentials import Credentials

ZONES = ["europe-west1-b", "us-central1-a"]
MARK = "python-proof"


def clients(endpoint, token):
    scheme, host = endpoint.split("://")

    def make(module, name):
        transport = getattr(module.transports, f"{name}RestTransport")(
            host=host, url_scheme=scheme, credentials=Credentials(token)
        )
        return getattr(module, f"{name}Client")(transport=transport)

    return {
        "instances": make(instances, "Instances"),
        "operations": make(zone_operations, "ZoneOperations"),
        "global": make(global_operations, "GlobalOperations"),
        "firewalls": make(firewalls, "Firewalls"),
        "projects": make(projects, "Projects"),
        "regions": make(regions, "Regions"),
    }


def instance(zone, name, user_data="#cloud-config\n"):
    disk = compute_v1.AttachedDisk(
        boot=True,
        auto_delete=True,
        initialize_params=compute_v1.AttachedDiskInitializeParams(
            source_image="projects/ubuntu-os-cloud/global/images/family/ubuntu-2404-lts-amd64",
            disk_size_gb=10,
        ),
    )
    nic = compute_v1.NetworkInterface(
        network="global/networks/default",
        access_configs=[compute_v1.AccessConfig(type_="ONE_TO_ONE_NAT", name="External NAT")],
    )
    return compute_v1.Instance(
        name=name,
        machine_type=f"zones/{zone}/machineTypes/e2-small",
        disks=[disk],
        network_interfaces=[nic],
        labels={"made-by": MARK},
        tags=compute_v1.Tags(items=["egress-proxy"]),
        metadata=compute_v1.Metadata(items=[compute_v1.Items(key="user-data", value=user_data)]),
    )


def ended(api, project, operation):
    """Waits for an operation, as the samples of the unary methods do."""
    while operation.status != compute_v1.Operation.Status.DONE:
        if operation.zone:
            zone = operation.zone.rsplit("/", 1)[1]
            operation = api["operations"].wait(
                project=project, zone=zone, operation=operation.name)
        else:
            operation = api["global"].wait(project=project, operation=operation.name)
    assert not operation.error.errors, operation
    return operation


def refused(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"not refused with {kind.__name__}")


def lives(api, project):
    """create, wait, get, list, aggregated list, delete, 404"""
    created = []
    for number in range(5):
        zone = ZONES[number % 2]
        name = f"proof-{number}"
        operation = api["instances"].insert_unary(
            project=project, zone=zone, instance_resource=instance(zone, name)
        )
        assert operation.status != compute_v1.Operation.Status.DONE, operation
        created.append((zone, name, operation))
    for zone, name, operation in created:
        ended(api, project, operation)
        record = api["operations"].get(project=project, zone=zone, operation=operation.name)
        assert record.status == compute_v1.Operation.Status.DONE, record
        assert record.operation_type == "insert" and record.progress == 100
        got = api["instances"].get(project=project, zone=zone, instance=name)
        assert got.status == "RUNNING", got.status
        assert got.id == record.target_id and got.self_link == record.target_link
        assert got.labels["made-by"] == MARK and got.label_fingerprint
        nic = got.network_interfaces[0]
        assert nic.network_i_p and nic.access_configs[0].nat_i_p, nic
        assert got.metadata.items[0].value == "#cloud-config\n"
        assert got.disks[0].boot and got.disks[0].auto_delete and got.disks[0].disk_size_gb == 10

    pager = api["instances"].list(
        request=compute_v1.ListInstancesRequest(
            project=project, zone=ZONES[0], max_results=1, filter=f"labels.made-by={MARK}"
        )
    )
    pages = [[one.name for one in page.items] for page in pager.pages]
    assert pages == [["proof-0"], ["proof-2"], ["proof-4"]], pages

    pager = api["instances"].aggregated_list(
        request=compute_v1.AggregatedListInstancesRequest(
            project=project, max_results=2, filter=f"(labels.made-by={MARK}) (status=RUNNING)"
        )
    )
    names, empty = [], 0
    for scope, scoped in pager:
        names += [(scope, one.name) for one in scoped.instances]
        empty += scoped.warning.code == "NO_RESULTS_ON_PAGE"
    wanted = sorted((f"zones/{zone}", name) for zone, name, _ in created)
    assert sorted(names) == wanted, names
    assert empty, "no scope is told to be empty"

    zone, name, _ = created[0]
    ended(api, project, api["instances"].stop_unary(project=project, zone=zone, instance=name))
    got = api["instances"].get(project=project, zone=zone, instance=name)
    assert got.status == "TERMINATED", got.status

    for zone, name, _ in created:
        delete = api["instances"].delete_unary(project=project, zone=zone, instance=name)
        ended(api, project, delete)
        error = refused(
            exceptions.NotFound,
            lambda: api["instances"].get(project=project, zone=zone, instance=name),
        )
        assert f"zones/{zone}/instances/{name}' was not found" in error.message, error.message


def refusals(api, project):
    zone, ask = ZONES[0], api["instances"]
    bad = instance(zone, "proof-bad")
    bad.labels["made-by"] = "Not Allowed"
    error = refused(exceptions.BadRequest, lambda: ask.insert_unary(
        project=project, zone=zone, instance_resource=bad))
    assert "Label value 'Not Allowed'" in error.message, error.message
    refused(exceptions.BadRequest, lambda: ask.insert_unary(
        project=project, zone=zone, instance_resource=instance(zone, "proof-big", "x" * 262145)))
    refused(exceptions.BadRequest, lambda: ask.insert_unary(
        project=project, zone=zone, instance_resource=instance(zone, "Not-a-Name")))
    refused(exceptions.NotFound, lambda: ask.delete_unary(
        project=project, zone=zone, instance="never-was"))

    request = compute_v1.InsertInstanceRequest(
        project=project, zone=zone, instance_resource=instance(zone, "proof-twice"),
        request_id=str(uuid.uuid4()),
    )
    first, second = ask.insert_unary(request=request), ask.insert_unary(request=request)
    assert first.name == second.name, (first.name, second.name)
    request.request_id = str(uuid.uuid4())
    refused(exceptions.Conflict, lambda: ask.insert_unary(request=request))
    ended(api, project, first)
    ended(api, project, ask.delete_unary(project=project, zone=zone, instance="proof-twice"))


def firewall_rules(api, project):
    rule = compute_v1.Firewall(
        name="proof-rule",
        network="global/networks/default",
        allowed=[compute_v1.Allowed(I_p_protocol="tcp", ports=["3128"])],
        source_ranges=["192.0.2.0/24"],
        target_tags=["egress-proxy"],
    )
    ask = api["firewalls"]
    ended(api, project, ask.insert_unary(project=project, firewall_resource=rule))
    rule.allowed[0].ports = ["3128", "8080"]
    ended(api, project, ask.patch_unary(
        project=project, firewall="proof-rule", firewall_resource=rule))
    got = ask.get(project=project, firewall="proof-rule")
    assert list(got.allowed[0].ports) == ["3128", "8080"] and got.direction == "INGRESS", got
    assert [one.name for one in ask.list(project=project)] == ["proof-rule"]
    ended(api, project, ask.delete_unary(project=project, firewall="proof-rule"))
    refused(exceptions.NotFound, lambda: ask.get(project=project, firewall="proof-rule"))


def main():
    endpoint, project, token = sys.argv[1:]
    # On 401 the client would refresh its token, and has nothing to do that with.
    refused(RefreshError, lambda: clients(endpoint, "guess")["projects"].get(project=project))
    api = clients(endpoint, token)
    assert api["projects"].get(project=project).name == project
    region = api["regions"].get(project=project, region="us-central1")
    assert region.status == "UP" and any(quota.metric == "CPUS" for quota in region.quotas)
    refused(exceptions.NotFound, lambda: api["projects"].get(project="somebody-elses"))
    lives(api, project)
    refusals(api, project)
    firewall_rules(api, project)
    print("all well")


main()
