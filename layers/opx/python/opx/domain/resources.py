"""Names of the things that documents and alerts are about: nodes, workloads, services, databases, queues.

A resource is one lower-case name, whichever field has it: a page with `node: Web-Server-01` and an alert with the label
`instance="web-server-01:9100"` are about the same one. Kinds are not kept: an index finds resources as exact terms.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

MAX_RESOURCES = 20
"""Resources of one document or alert."""
MAX_CHARACTERS = 100

LABELS = "labels"
"""Field of metadata with the labels of an alert, each as `name=value`."""
ANY, POD, WORKLOAD, VOLUME, STORE = "any", "pod", "workload", "volume", "store"
SERVICE, NODE, ADDRESS, CONTAINER, PLACE = "service", "node", "address", "container", "place"

_KIND_OF = {
    name: kind
    for kind, names in {
        ANY: "resource resources",
        NODE: "node nodename host hostname server machine instance instanceid",
        POD: "pod podname replicaset jobname",
        WORKLOAD: "deployment statefulset daemonset cronjob workload",
        VOLUME: "persistentvolumeclaim pvc",
        SERVICE: "service services servicename app appkubernetesioname appname application component svc",
        CONTAINER: "container containername",
        PLACE: "namespace cluster clustername region account accountid",
        STORE: "database db dbname datname dbinstance dbinstanceidentifier dbclusteridentifier cacheclusterid queue"
        " queuename topic topicname consumergroup bucket bucketname table tablename function functionname loadbalancer"
        " targetgroup autoscalinggroupname filesystemid volumeid",
        ADDRESS: "url probe endpointurl",
    }.items()
    for name in names.split()
}
"""Fields that name a resource, in lower case without separators, with its kind. Others, such as `job`, `prometheus`,
`endpoint`, `receiver` and `severity`, say how an alert was made."""

_SAYS_NOTHING = frozenset(("", "-", "*", "all", "any", "default", "n/a", "na", "none", "null", "unknown", "pod", "app"))
_PREFIX = re.compile(r"\A(?:kubernetes|kube|k8s|exported|aws)")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
_PORT = re.compile(r":\d{1,5}\Z")
_HASH = re.compile(r"[0-9a-f]{16}|")
_ADDRESS = re.compile(r"[\d.]+|[0-9a-f:]*:[0-9a-f:]*")
_ROLLOUT = re.compile(r"(?P<name>.+?)-(?=[a-z0-9]*\d)[a-z0-9]{4,10}-[a-z0-9]{2,5}")
"""The name of a deployment's pod: the deployment, the hash of its template, and a random part."""
_RUN = re.compile(r"(?P<name>.+?)-\d{8,}(?:-[a-z0-9]{5})?")
"""The name of a job that a schedule started, or of its pod."""
_RANDOM = re.compile(r"(?P<name>.+)-(?:[bcdf-hj-np-tv-xz2-9]{5}|(?=[a-z0-9]*\d)[a-z0-9]{8,10})")
"""The name of a daemon set's pod, and of a deployment's replica set."""
_TEMPLATE = re.compile(r"\A[^-]+-(?:\d+-)*")
_ORDINAL = re.compile(r"(?P<name>.+)-\d{1,3}")


def kind_of_field(name: str) -> str:
    """The kind of resource that a field of metadata or a label names; "" for none."""
    plain = _SEPARATORS.sub("", name.casefold())
    return _KIND_OF.get(plain) or _KIND_OF.get(_PREFIX.sub("", plain), "")


def resources_in(fields: Mapping[str, Any]) -> tuple[str, ...]:
    """The resources that the fields of metadata, or the labels of an alert, name: the most specific kind first, each once.
    Values are strings or lists of strings; a value of another type names nothing."""
    given = (*fields.items(), *labels_in(fields).items())
    found = [(kind, value) for name, value in given if (kind := kind_of_field(name))]
    ordered = sorted(found, key=lambda one: _ORDER.index(one[0]))
    return resources_of(name for kind, value in ordered for text in texts_in(value) for name in _names(text, kind))


_ORDER = (ANY, POD, WORKLOAD, VOLUME, STORE, SERVICE, NODE, ADDRESS, CONTAINER, PLACE)
_LEVELS = ((ANY, POD, WORKLOAD, VOLUME, STORE), (SERVICE,), (NODE, ADDRESS))
"""Kinds, the most specific ones first. An alert about a workload has labels for the node and for the exporter's service,
too, which others share; and many things are in one namespace."""


def identity_in(labels: Mapping[str, str]) -> tuple[str, ...]:
    """The resources that an alert is about: those that its most specific labels name; none for a namespace alone."""
    for kinds in _LEVELS:
        if found := resources_in({name: value for name, value in labels.items() if kind_of_field(name) in kinds}):
            return found
    return ()


def resources_of(names: Iterable[str]) -> tuple[str, ...]:
    """The names as resources, each once, `MAX_RESOURCES` at most."""
    each = (" ".join(name.split()).casefold() for name in names)
    kept = (name for name in each if name not in _SAYS_NOTHING and len(name) <= MAX_CHARACTERS)
    return tuple(dict.fromkeys(kept))[:MAX_RESOURCES]


def labels_in(fields: Mapping[str, Any]) -> dict[str, str]:
    """The labels of an alert that metadata have."""
    return dict(text.partition("=")[::2] for text in texts_in(fields.get(LABELS, ())))


def texts_in(value: Any) -> Iterator[str]:
    """The strings of a field, each in one line; a value of another type has none."""
    several = value if isinstance(value, list | tuple) else (value,)
    return (" ".join(one.split()) for one in several if isinstance(one, str))


def _names(text: str, kind: str) -> Iterator[str]:
    """The name in a field's value, and the names of what it belongs to: the workload of a pod, the host of an address."""
    name = text.strip().casefold()
    if name.startswith("arn:"):
        name = next((part for part in reversed(re.split(r"[:/]", name)) if not _HASH.fullmatch(part)), "")
    if kind == ANY:  # `node:web-server-01` or a name alone
        before, _, after = name.partition(":")
        kind, name = (_KIND_OF[before], after) if before in _KIND_OF and after else (ANY, name)
    if "://" in name:
        name = _host_of(name)
    if kind == ANY and "/" in name:  # `logging/elasticsearch`
        yield name
        name = name.rpartition("/")[2]
    if kind == VOLUME:  # `data-elasticsearch-0`: the claim of a template for a pod of a stateful set
        kind, name = POD, _TEMPLATE.sub("", name)
    if kind in (NODE, ADDRESS):
        name = _PORT.sub("", name)
    if kind == POD and (owner := workload_of(name)) != name:
        if _ORDINAL.fullmatch(name):
            yield name
        name = owner
    yield name
    if kind == NODE and "." in name and not _ADDRESS.fullmatch(name):
        yield name.partition(".")[0]


def _host_of(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def workload_of(pod: str) -> str:
    """The deployment, stateful set, daemon set or job of a pod: `orders-worker-7c9f8d6b5-x2k9q` is `orders-worker`,
    `kafka-2` is `kafka`. A name of another form is returned unchanged."""
    for form in (_ROLLOUT, _RUN, _RANDOM, _ORDINAL):
        if match := form.fullmatch(pod):
            return next(name for name in match.groups() if name)
    return pod
