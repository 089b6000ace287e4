"""A Lepton workspace on loopback, with the endpoints that jobs need; its other half is in `routes_jobs`."""

from __future__ import annotations

from typing import Any

from labs.lepton.routes_jobs import JobRoutes, known
from labs.lepton.rules import fits
from labs.lepton.world import Group, group_json, node_json, permission_json, reservation_json, shape_json
from labs.web import Answer, HttpError, Request, route


class LeptonLab(JobRoutes):
    """The server. Token, workspace and URL: `environment()`; what happens to jobs: `scenario()`; volumes: `volumes`."""

    @route("GET", "/workspace")
    def info(self, request: Request) -> Any:
        """The workspace: the cheapest proof that a token is good."""
        known(request)
        resource = {"cpu": 0.0, "memory": 0, "accelerator_num": 0.0}
        service = {"kv_store_num": 0, "queue_num": 0}  # only the older client wants it
        counts = ("photons", "deployments", "jobs", "pods", "secrets", "image_pull_secrets")
        return {
            "build_time": "2026-01-01T00:00:00Z",
            "git_commit": "0.1.0",
            "workspace_name": self.workspace,
            "workspace_tier": "enterprise",
            "workspace_state": "normal",
            "supported_shapes": {shape.id: {"cpu": shape.cpu} for shape in self.world.shapes},
            "workspace_disk_usage_bytes": 0,
            "workloads": {f"num_{name}": 0 for name in counts},
            "resource_quota": {"limit": resource, "used": resource},
            "service_quota": {"limit": service, "used": service},
            "features": {"enable_new_deployment_api": True},
        }

    @route("GET", "/dedicated-node-groups")
    def groups(self, request: Request) -> Any:
        """All node groups."""
        known(request)
        return [group_json(group, self.workspace) for group in self.world.groups]

    @route("GET", "/dedicated-node-groups/{group}")
    def one_group(self, request: Request) -> Any:
        """One, by its id."""
        known(request)
        return group_json(self._group(request.names["group"]), self.workspace)

    @route("GET", "/dedicated-node-groups/{group}/nodes")
    def nodes(self, request: Request) -> Any:
        """Its nodes, with what they hold; `idle`: only those that hold nothing."""
        known(request, "idle")
        group = self._group(request.names["group"])
        found = [node_json(node, group, self.workloads(node.id)) for node in group.nodes]
        idle = request.params.get("idle") == "true"
        return [node for node in found if not idle or not node["spec"]["resource"]["gpu"]["allocated"]]

    @route("GET", "/dedicated-node-groups/{group}/reservations")
    def reservations(self, request: Request) -> Any:
        """Its reservations."""
        known(request)
        group = self._group(request.names["group"])
        return [reservation_json(id, group) for id in group.reservations]

    @route("GET", "/storage-permission/{volume}")
    def permissions(self, request: Request) -> Any:
        """Which paths of a node group's volume may be mounted."""
        known(request, "nodegroup_id")
        group = self._group(request.params.get("nodegroup_id", ""))
        volume = next((each for each in group.volumes if each.name == request.names["volume"]), None)
        if volume is None:
            raise HttpError(404, f"no volume {request.names['volume']!r}")
        return [permission_json(prefix, group.id) for prefix in volume.prefixes]

    @route("GET", "/shapes")
    def shapes(self, request: Request) -> Any:
        """Resource shapes, of node groups, for a purpose."""
        known(request, "node_groups", "purpose")
        asked = request.params.get("node_groups")
        purpose = request.params.get("purpose")
        ids = [self._group(id).id for id in asked.split(",")] if asked else [group.id for group in self.world.groups]
        return [
            shape_json(shape)
            for shape in self.world.shapes
            if set(shape.groups) & set(ids) and (purpose is None or purpose in shape.listable_in)
        ]

    @route("GET", "/usersecrets")
    def secrets(self, request: Request) -> Any:
        """Their names; values are never told."""
        known(request)
        return [{"name": name} for name in list(self.world.secrets)]

    @route("POST", "/usersecrets")
    def make_secrets(self, request: Request) -> Answer:
        """Makes secrets; one that is there is a conflict."""
        known(request)
        for secret in fits("secrets", request.json()):
            if secret["name"] in self.world.secrets:
                raise HttpError(409, f"secret {secret['name']!r} exists")
            self.world.secrets[secret["name"]] = secret["value"]
        return Answer(201, {})

    @route("DELETE", "/usersecrets/{name}")
    def drop_secret(self, request: Request) -> Any:
        """Removes one."""
        known(request)
        if self.world.secrets.pop(request.names["name"], None) is None:
            raise HttpError(404, "no such secret")
        return {}

    @route("GET", "/imagepullsecrets")
    def registries(self, request: Request) -> Any:
        """The image pull secrets, without their passwords."""
        known(request)
        return [
            {"metadata": {"id": name, "name": name}, "spec": {**spec, "password": ""}}
            for name, spec in list(self.world.registries.items())
        ]

    @route("POST", "/imagepullsecrets")
    def make_registry(self, request: Request) -> Answer:
        """Makes one; one that is there is a conflict."""
        known(request)
        body = fits("registry", request.json())
        name = body["metadata"]["name"]
        if name in self.world.registries:
            raise HttpError(409, f"image pull secret {name!r} exists")
        self.world.registries[name] = body["spec"]
        return Answer(201, {"metadata": {"id": name, "name": name}})

    def _group(self, id: str) -> Group:
        found = self.world.group(id)
        if found is None:
            raise HttpError(404, f"no node group {id!r}")
        return found
