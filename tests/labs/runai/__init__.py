"""A strict run:ai on loopback: its REST API and the Kubernetes API server's pods and logs; jobs are really executed.

    with RunaiLab(folder) as lab:
        token = requests.post(f"{lab.base_url}/token", json={...}).json()["accessToken"]

What it takes and gives follows NVIDIA's OpenAPI document of the control plane (kept in github.com/api-evangelist/runai,
`openapi/`) and pages of docs.nvidia.com/run-ai; where these are silent, it is said in the docstring of the part. Found:

* A workload is made by POST /workloads/{trainings|distributed|workspaces}: 202, with `workloadId`; `actualPhase` may
  be absent. Suspend and resume are POST /workloads/KIND/ID/suspend|resume, for all three kinds; DELETE
  /workloads/KIND/ID; each answers 202 {code, message}. An id under another kind is 404.
* GET /workloads/KIND/ID has `workloadId` and `actualPhase`; GET /workloads and /workloads/ID have `id` and `phase`.
* Lists: offset, limit (1 to 500, by default 50), `filterBy=name==x,projectId==y` in one parameter; `next` is the offset
  of the next page and absent at the end. Events come newest first.
* `masterSpecSameAsWorker: true` (or a masterSpec) makes a master beside numWorkers workers: two nodes are numWorkers 1
  (NVIDIA's tutorial on distributed PyTorch). Without either there is no master, and Kubeflow's operator sets neither
  MASTER_ADDR nor RANK nor WORLD_SIZE (training-operator, pkg/controller.v1/pytorch/envvar.go).
* backoffLimit is 6 by default: a training that fails is run again. existingPvc is false by default: a claim that does
  not exist is made.
* environmentVariables: name and exactly one of value, secret {name, key}, configMap, podFieldRef, userCredential. A
  credential NAME of kind genericSecret is the Kubernetes secret `genericsecret-NAME` (clusterInfo.resources[].name).
* Kubernetes expands `$(NAME)` and `$$` in command, args and values.
* Suspending removes the pods, and with them their logs. cleanPodPolicy is Running: pods that still run when the job is
  over are ended.
* The control plane has no logs; sinceTime of Kubernetes has seconds.
* POST /token takes grantType, clientID (NeMo-Run: clientId), clientSecret; gives accessToken and expiresIn (seconds).
"""

from labs.runai.server import RunaiLab

__all__ = ["RunaiLab"]
