#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# The rules of the Kubernetes manifests that nothing but a cluster would notice. Called by check_deploy.
# usage: manifests.py DEPLOY-FOLDER maps/paths.h loader/config.h
import os
import re
import sys

import yaml

deploy, *headers = sys.argv[1:]
folder = os.path.join(deploy, "kubernetes")
faults = []


def fault(text):
    faults.append(text)


def documents(path):
    with open(path, encoding="utf-8") as file:
        return list(yaml.safe_load_all(file))


def default_path(name):
    for header in headers:
        with open(header, encoding="utf-8") as file:
            found = re.search(name + r'\s*=\s*"([^"]+)"', file.read())
        if found:
            return found.group(1)
    fault(f"no header has {name}")
    return ""


def unit_value(key):
    with open(os.path.join(deploy, "poduplinkd.service"), encoding="utf-8") as file:
        return [line.split("=", 1)[1].split() for line in file if line.startswith(key + "=")][-1]


def kustomization(path):
    """Every file that it names is there; returns its documents and the names of its generated ConfigMaps."""
    one = documents(os.path.join(path, "kustomization.yaml"))[0]
    configs = set()
    resources = []
    for name in one["resources"]:
        resources += documents(os.path.join(path, name))
    for generator in one.get("configMapGenerator", []):
        configs.add(generator["name"])
        for name in generator["files"]:
            if not os.path.isfile(os.path.join(path, name)):
                fault(f"{path}: there is no {name}")
    return resources, configs, {image["name"] for image in one["images"]}


def check_pod(where, pod, accounts, configs, images):
    containers = pod.get("initContainers", []) + pod["containers"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {mount["name"] for container in containers for mount in container.get("volumeMounts", [])}
    if mounted != set(volumes):
        fault(f"{where}: volumes and mounts differ: {mounted ^ set(volumes)}")
    for name, volume in volumes.items():
        config = volume.get("configMap", {}).get("name")
        if config and config not in configs:
            fault(f"{where}: nothing makes the ConfigMap {config}")
        # A path of the node is the same in the pod: programs have one default.
        path = volume.get("hostPath", {}).get("path")
        for container in containers:
            for mount in container.get("volumeMounts", []):
                if mount["name"] == name and path and mount["mountPath"] != path:
                    fault(f"{where}: {container['name']} has {path} at {mount['mountPath']}")
    if pod.get("serviceAccountName") not in accounts | {None}:
        fault(f"{where}: there is no ServiceAccount {pod['serviceAccountName']}")
    if pod.get("automountServiceAccountToken") is not False:
        fault(f"{where}: has a token of the API server")
    if not pod.get("hostNetwork") or pod.get("hostPID") or pod.get("priorityClassName") != "system-node-critical":
        fault(f"{where}: must be critical, on the host's network, and not see the host's processes")
    if {"operator": "Exists"} not in pod["tolerations"]:
        fault(f"{where}: does not run on every node")
    for container in containers:
        check_container(f"{where}, {container['name']}", container, images)


def check_container(where, container, images):
    context = container["securityContext"]
    if container["image"] not in images:
        fault(f"{where}: kustomization.yaml does not name its image {container['image']}")
    if context.get("privileged") or context["capabilities"]["drop"] != ["ALL"] or not context["readOnlyRootFilesystem"]:
        fault(f"{where}: has more than it needs")
    is_agent = container["command"][0] == "poduplinkd"
    has = {"CAP_" + name for name in context["capabilities"].get("add", [])}
    needs = set(unit_value("CapabilityBoundingSet")) if is_agent else set()
    if has != needs:
        fault(f"{where}: has {has or 'no capabilities'}; the unit gives the agent {needs or 'none'}")
    mounts = {mount["mountPath"]: mount for mount in container.get("volumeMounts", [])}
    if is_agent:
        bpffs = os.path.dirname(default_path("default_pin_dir"))
        if mounts.get(bpffs, {}).get("mountPropagation") != "HostToContainer":
            fault(f"{where}: would not see a bpffs that is mounted anew at {bpffs}")
        if default_path("default_run_dir") not in mounts:
            fault(f"{where}: its records are not on the node")
        for probe in ("livenessProbe", "readinessProbe"):
            if probe in container and container[probe]["httpGet"]["host"] != "127.0.0.1":
                fault(f"{where}: {probe} asks an address at which nobody listens")


def main():
    for path in (folder, os.path.join(folder, "uninstall")):
        resources, configs, images = kustomization(path)
        accounts = {one["metadata"]["name"] for one in resources if one["kind"] == "ServiceAccount"}
        sets = [one for one in resources if one["kind"] == "DaemonSet"]
        if not sets:
            fault(f"{path}: no DaemonSet")
        for one in sets:
            template = one["spec"]["template"]
            if one["spec"]["selector"]["matchLabels"] != template["metadata"]["labels"]:
                fault(f"{path}: the selector does not find the pods")
            unconfined = {key.rpartition("/")[2] for key in template["metadata"]["annotations"]}
            every = template["spec"].get("initContainers", []) + template["spec"]["containers"]
            if unconfined != {each["name"] for each in every if each["command"][0] == "poduplinkd"}:
                fault(f"{path}: AppArmor is off for others than the agent: {unconfined}")
            check_pod(path, template["spec"], accounts, configs, images)
    agent = next(one for one in documents(os.path.join(folder, "daemonset.yaml"))[0]["spec"]["template"]["spec"]["containers"]
                 if one["name"] == "agent")
    config_folder = os.path.dirname(default_path("default_config_path"))
    if config_folder not in {mount["mountPath"] for mount in agent["volumeMounts"]}:
        fault(f"the agent's configuration is not at {config_folder}")


main()
for text in faults:
    print(text, file=sys.stderr)
sys.exit(1 if faults else 0)
