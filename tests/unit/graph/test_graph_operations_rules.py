"""Edges from metadata, and from the text of runbooks, incidents and changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.extraction_support import Extracted, Extraction

CORPUS = Path(__file__).parents[3] / "corpus" / "documents" / "runbooks"


@pytest.fixture(scope="module")
def extraction(tmp_path_factory: pytest.TempPathFactory) -> Extraction:
    return Extraction(tmp_path_factory.mktemp("rules"))


def page(extraction: Extraction, fields: str, text: str = "text", source: str = "runbooks/page.md") -> Extracted:
    return extraction.extract(f"---\n{fields}\n---\n# Page\n\n{text}\n", source)


# -- metadata


@pytest.mark.parametrize(
    ("fields", "edges"),
    [
        ("services: [shop, orders]", ["runbook:page documents service:shop", "runbook:page documents service:orders"]),
        ("alerts: [HighCpu]", ["runbook:page handles alert:highcpu"]),
        ("alert: HighCpu", ["runbook:page handles alert:highcpu"]),
        ("owner: team-a", ["runbook:page owned_by team:team-a"]),
        (
            "owners: [user:ann, a@b.example]",
            ["runbook:page owned_by user:ann", "runbook:page owned_by email:a@b.example"],
        ),
        ("incidents: [INC-1]", ["runbook:page mentions incident:inc-1"]),
        ("change: CHG-1", ["runbook:page mentions change:chg-1"]),
        ("runbooks: ../runbooks/other.md", ["runbook:page references runbook:other"]),
        ("runbooks: [db/third]", ["runbook:page references runbook:db/third"]),
        ("affects: [shop, product:nginx]", ["runbook:page affects service:shop", "runbook:page affects product:nginx"]),
        ("fixes: [TASK-1, INC-2]", ["runbook:page fixes jira:task-1", "incident:inc-2 resolved_by runbook:page"]),
        ("supersedes: runbooks/old.md", ["runbook:page supersedes runbook:old"]),
        ("tested-with: [nginx 1.24.0]", ["runbook:page tested_with product:nginx"]),
        ("entity: service:shop\ndepends_on: [orders]", ["service:shop depends_on service:orders"]),
        ("entity: service:shop\nhosts: web-1", ["service:shop hosted_on host:web-1"]),
        ("entity: service:shop\nruns: [fortinet/FortiOS@7.0.13]", ["service:shop runs product:fortinet/fortios"]),
        ("entity: service:shop\nalerts: [ShopDown]", ["alert:shopdown fires_on service:shop"]),
        ("entity: service:shop\nrunbook: shop-down", ["runbook:shop-down documents service:shop"]),
        (
            "service: shop\ndependencies: db",
            ["runbook:page documents service:shop", "service:shop depends_on service:db"],
        ),
    ],
)
def test_fields_of_a_page_are_edges(extraction: Extraction, fields: str, edges: list[str]) -> None:
    extracted = page(extraction, fields)
    assert extracted.edges == set(edges)
    assert extracted.remarks == ""


@pytest.mark.parametrize(
    ("fields", "edges"),
    [
        ("services: [shop]", {"incident:inc-7 affects service:shop"}),
        ("hosts: [web-1]", {"incident:inc-7 affects host:web-1"}),
        ("caused_by: CHG-3", {"change:chg-3 caused incident:inc-7"}),
        ("caused_by: the change CHG-3.", {"change:chg-3 caused incident:inc-7"}),
        ("resolved_by: CHG-4", {"incident:inc-7 resolved_by change:chg-4"}),
        ("resolved_by: deploy-rollback", {"incident:inc-7 resolved_by runbook:deploy-rollback"}),
        ("alerts: [HighCpu]", {"incident:inc-7 mentions alert:highcpu"}),
        ("products: [nginx 1.24]", {"incident:inc-7 mentions product:nginx"}),
    ],
)
def test_fields_of_an_incident_are_edges_of_the_event(extraction: Extraction, fields: str, edges: set[str]) -> None:
    assert page(extraction, f"incident: INC-7\n{fields}", source="postmortems/a.md").edges == edges


def test_version_is_a_property_of_the_runs_edge(extraction: Extraction) -> None:
    extracted = page(extraction, "entity: service:shop\nruns: [OpenSSL 1.1.1k, Windows Server 2008 SP1, nginx]")
    assert extracted.edge("service:shop runs product:openssl").properties == {"version": "1.1.1k"}
    assert extracted.edge("service:shop runs product:windows_server").properties == {"version": "2008 SP1"}
    assert extracted.edge("service:shop runs product:nginx").properties == {}


@pytest.mark.parametrize(
    ("text", "product", "version"),
    [
        ("nginx 1.24.0", "nginx", "1.24.0"),
        ("nginx/1.24.0", "nginx", "1.24.0"),
        ("nginx:1.24.0-alpine", "nginx", "1.24.0-alpine"),
        ("igor_pavlov/7-zip", "igor_pavlov/7-zip", ""),
        ("product:nginx@v1.24", "nginx", "1.24"),
        ("Apache/HTTP Server v2.4.1", "apache/http_server", "2.4.1"),
        ("Windows Server 2008 R2", "windows_server", "2008 R2"),
    ],
)
def test_product_is_read_in_the_ways_that_people_write_it(
    extraction: Extraction, text: str, product: str, version: str
) -> None:
    extracted = page(extraction, f"entity: service:shop\nruns: ['{text}']")
    found = extracted.edge(f"service:shop runs product:{product}")
    assert found.properties == ({"version": version} if version else {})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ("services: [a]\nruns: ['1.24']", "'runs' has '1.24', which is not a product"),
        ("runbook: https://wiki.example/x", "which is not the name or path of a runbook"),
        ("owner: '|'", "'team' has '|', which is not a name"),
        (f"alerts: [{', '.join(f'A{number}' for number in range(60))}]", "'alerts' has 50 values"),
    ],
)
def test_invalid_value_is_reported(extraction: Extraction, fields: str, expected: str) -> None:
    assert expected in page(extraction, fields).remarks


def test_field_of_several_services_is_refused_and_not_guessed(extraction: Extraction) -> None:
    extracted = page(extraction, "services: [a, b]\ndepends_on: [c]\nruns: [nginx 1.2]")
    assert not [edge for edge in extracted.edges if "depends_on" in edge or "runs" in edge]
    assert "'depends_on' doesn't state its service" in extracted.remarks
    assert "'runs' doesn't state its service" in extracted.remarks


def test_entity_without_a_namespace_is_reported(extraction: Extraction) -> None:
    assert "'entity' has 'checkout', which is not a reference" in page(extraction, "entity: checkout").remarks


def test_aliases_are_other_names_of_the_own_node(extraction: Extraction) -> None:
    extracted = page(extraction, "entity: service:shop\naliases: [Web-Shop, host:shop-1, shop]")
    assert extracted.statements.aliases == (("service:web-shop", "service:shop"), ("host:shop-1", "service:shop"))


def test_evidence_of_a_field_is_a_passage_that_names_its_end(extraction: Extraction) -> None:
    text = (
        "Nothing here but checkout-edge.\n\n## More\n\n"
        + "filling words " * 60
        + "\n\n## Where\n\nAsk Checkout.\n\n"
        + "more " * 70
    )
    extracted = extraction.extract(f"---\nservices: [checkout, ghost]\n---\n# Page\n\n{text}\n", tokens=100)
    assert len(extracted.chunks) > 2
    assert "Ask Checkout" in extracted.evidence("runbook:page documents service:checkout")
    assert "checkout-edge" not in extracted.evidence("runbook:page documents service:checkout")
    assert extracted.edge("runbook:page documents service:ghost").chunk_ids == (extracted.chunks[0].chunk_id,)


@pytest.mark.parametrize("category", ["web/blogs", "vendor/cloud", "standards/owasp"])
def test_metadata_of_foreign_documents_state_no_edges(extraction: Extraction, category: str) -> None:
    fields = "entity: service:shop\naliases: [evil]\nservices: [shop]\ndepends_on: [evil]\nalerts: [HighCpu]"
    extracted = extraction.extract(f"---\n{fields}\n---\n# Page\n\ntext\n", "page.md", category=category)
    assert extracted.own == "document:page"
    assert not extracted.edges
    assert not extracted.statements.aliases
    assert [node.key for node in extracted.statements.nodes if node.declared] == ["document:page"]


# -- records


def test_record_of_a_firing_is_an_instance_of_its_alert(extraction: Extraction) -> None:
    record = {
        "title": "Pods restart",
        "commonLabels": {"alertname": "KubePodCrashLooping", "service": "shop"},
        "fired_at": "2026-01-02T03:04:05Z",
    }
    extracted = extraction.extract(record, "operations/alerts/a1.json")
    assert extracted.edges == {
        "alert_event:a1 instance_of alert:kubepodcrashlooping",
        "alert:kubepodcrashlooping fires_on service:shop",
        "alert_event:a1 affects service:shop",
    }
    assert extracted.edge("alert_event:a1 instance_of alert:kubepodcrashlooping").at == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("metadata", "alert"),
    [
        ({"tags": ["alertmanager", "disk full", "firing"], "title": "Disk"}, "alert:disk full"),
        ({"tags": ["prod", "DiskFull"], "title": "The disk is full"}, "alert:diskfull"),
        ({"tags": ["prod"], "title": "orders-5xx"}, "alert:orders-5xx"),
        ({"tags": ["DiskFull"], "alert": "Other"}, "alert:other"),
    ],
)
def test_name_of_an_alert_that_fired_is_in_a_field_a_tag_or_the_title(
    extraction: Extraction, metadata: dict[str, Any], alert: str
) -> None:
    extracted = extraction.extract("text\n", "operations/alerts/a1.md", **metadata)
    assert extracted.edges == {f"alert_event:a1 instance_of {alert}"}


def test_records_of_incident_and_change_are_linked_by_their_ids(extraction: Extraction) -> None:
    incident = extraction.extract(
        {"id": "INC-12", "title": "Outage", "content": "Errors.", "services": ["shop"], "caused_by": "CHG-7"},
        "operations/incidents/x1.json",
    )
    change = extraction.extract(
        {"id": "CHG-7", "title": "Deploy", "description": "New version.", "affected_systems": ["shop"]},
        "operations/changes/x2.json",
    )
    assert incident.edges == {"incident:inc-12 affects service:shop", "change:chg-7 caused incident:inc-12"}
    assert (change.own, change.edges) == ("change:chg-7", {"change:chg-7 affects service:shop"})


def test_successful_fix_resolved_its_incident(extraction: Extraction) -> None:
    record = {"title": "Leak", "problem": "p", "solution": "s", "incident": "INC-12"}
    assert extraction.extract(record, "evidence/remediation/r.json").edges == {
        "incident:inc-12 resolved_by document:r.json"
    }
    run = {"title": "Leak", "conclusions": ["c"], "incident": "INC-12"}
    assert extraction.extract(run, "evidence/agent_runs/r.json").edges == {"document:r.json mentions incident:inc-12"}


# -- text of incidents and changes


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("It was caused by change CHG-3.", "change:chg-3 caused incident:inc-7"),
        ("Triggered by the deployment `CHG-3`.", "change:chg-3 caused incident:inc-7"),
        ("The outage was resolved by the rollback CHG-3.", "incident:inc-7 resolved_by change:chg-3"),
        ("Fixed with CHG0030003", "incident:inc-7 resolved_by change:chg0030003"),
        ("See CHG-3 for the plan.", "incident:inc-7 mentions change:chg-3"),
        ("Caused by INC-9.", "incident:inc-7 mentions incident:inc-9"),
    ],
)
def test_text_of_an_incident_states_the_effect_of_a_change(extraction: Extraction, text: str, edge: str) -> None:
    extracted = page(extraction, "incident: INC-7", text, "postmortems/a.md")
    assert extracted.edges == {edge}
    assert text in extracted.evidence(edge)


@pytest.mark.parametrize(
    ("text", "edge"),
    [
        ("It caused incident INC-7.", "change:chg-3 caused incident:inc-7"),
        ("This resolves INC-7 for good.", "incident:inc-7 resolved_by change:chg-3"),
        ("Follows INC-7.", "change:chg-3 mentions incident:inc-7"),
    ],
)
def test_text_of_a_change_states_its_effect(extraction: Extraction, text: str, edge: str) -> None:
    assert page(extraction, "id: CHG-3", text, "operations/changes/a.md").edges == {edge}


def test_ids_in_other_pages_are_no_causes(extraction: Extraction) -> None:
    assert not page(extraction, "title: A", "Caused by CHG-3, resolved by CHG-4.").edges


# -- alerts of runbooks


@pytest.mark.parametrize(
    ("text", "alerts"),
    [
        ("**Alert:** `KubePodCrashLooping` (warning)", {"kubepodcrashlooping"}),
        (
            "Alarms: `CpuHigh` (`CPUUtilization` above 85 %), `DbLoadHigh`, on `cluster_count`.",
            {"cpuhigh", "dbloadhigh"},
        ),
        ("| **Alerts** | `NodeDiskFull` (under 5 %), `NodeInodesFull` |", {"nodediskfull", "nodeinodesfull"}),
        ("Alarms (all in **us-east-1**): `Shop5xxHigh`", {"shop5xxhigh"}),
        ("**Alarm:** `NatErrors-<az>`: `ErrorPortAllocation` above 0", {"naterrors"}),
        ("Cluster `nw-events`. **Alert** `KafkaLagHigh`, 10 minutes", {"kafkalaghigh"}),
        ("**Alerts**\n\n- `DiskFull`: `node_x > 1`\n- `DiskFilling`\n\nOr `OtherThing`.", {"diskfull", "diskfilling"}),
        (
            "| Alert | When |\n|---|---|\n| `DiskFull` | `RateOfWrites` |\n| `DiskFilling` | now |",
            {"diskfull", "diskfilling"},
        ),
        ("Alarm on `ActiveConnectionCount` trend.", set()),
        ("The alert needs `kubectl` and `Errors`.", set()),
        ("`OOMKilled` pods; `CrashLoopBackOff` is no cause. The alert fires.", set()),
    ],
)
def test_alerts_of_a_runbook_are_those_that_it_lists(extraction: Extraction, text: str, alerts: set[str]) -> None:
    assert page(extraction, "author: me", text).edges == {f"runbook:page handles alert:{name}" for name in alerts}


@pytest.mark.parametrize(
    ("title", "text", "found"),
    [
        ("InfoInhibitor", "This alert inhibits others.", True),
        ("etcdNoLeader", "The alert fires without a leader.", True),
        ("KubeJobFailed", "A job has failed.", True),
        ("Watchdog", "This alert always fires.", False),
        ("Pod is in CrashLoopBackOff", "The alert fires.", False),
    ],
)
def test_runbook_with_the_name_of_an_alert_as_title_handles_it(
    extraction: Extraction, title: str, text: str, found: bool
) -> None:
    extracted = extraction.extract(f"# {title}\n\n{text} See also alert `AnotherThing`.\n")
    names = {f"runbook:page handles alert:{title.lower()}"} if found else {"runbook:page handles alert:anotherthing"}
    assert extracted.edges == names


def test_title_in_camel_case_is_no_alert_in_a_text_without_alerts(extraction: Extraction) -> None:
    assert not extraction.extract("# PodSecurityPolicy\n\nWhat it is.\n").edges


def test_tags_of_common_alerts_count_and_others_do_not(extraction: Extraction) -> None:
    tags = "[KubePodCrashLooping, NodeClockSkewDetected, OOMKilled, DaysToExpiry, NotReady, NodePort, KubeConfig]"
    extracted = page(extraction, f"tags: {tags}")
    assert extracted.edges == {
        "runbook:page handles alert:kubepodcrashlooping",
        "runbook:page handles alert:nodeclockskewdetected",
    }
    assert extracted.edge("runbook:page handles alert:kubepodcrashlooping").confidence < 1


def test_only_runbooks_handle_alerts(extraction: Extraction) -> None:
    assert not page(extraction, "tags: [KubePodCrashLooping]", "**Alert:** `DiskFull`", "postmortems/x.md").edges


def test_alerts_of_the_example_runbooks_match_manual_labels(extraction: Extraction) -> None:
    """The same lines and tags have metrics, errors and states with the shape of alerts."""
    found: dict[str, set[str]] = {}
    for name in ("acm-certificate-renewal", "persistent-volume-full", "vpc-nat-port-exhaustion", "eks-node-not-ready"):
        extracted = extraction.extract((CORPUS / f"{name}.md").read_text(), f"runbooks/{name}.md")
        found[name] = {edge.partition(" handles alert:")[2] for edge in extracted.edges if " handles " in edge}
    assert found == {
        "acm-certificate-renewal": {"acmdaystoexpirylow"},
        "persistent-volume-full": {"kubepersistentvolumefillingup", "kubepersistentvolumeinodesfillingup"},
        "vpc-nat-port-exhaustion": {"natportallocationerrors"},
        "eks-node-not-ready": {"kubenodenotready", "kubenodeunreachable", "eksfailednodes"},
    }


@pytest.mark.parametrize(
    ("line", "alerts"),
    [
        ("Alert: EtcdNoSpace", {"etcdnospace"}),
        ("**Alert:** EtcdNoSpace (critical).", {"etcdnospace"}),
        ("- Alerts: EtcdNoSpace, EtcdSlow and EtcdDown", {"etcdnospace", "etcdslow", "etcddown"}),
        ("Alert name: EtcdNoSpace fires after 5 minutes", {"etcdnospace"}),
        ("Alert: PostgreSQL replication is behind", set()),
        ("Alert: none", set()),
        ("The alert: EtcdNoSpace", set()),
    ],
)
def test_names_without_quotes_count_on_a_line_that_begins_with_alert(
    extraction: Extraction, line: str, alerts: set[str]
) -> None:
    extracted = extraction.extract(f"# Disk is full\n\n{line}\n", "runbooks/page.md")
    assert extracted.edges == {f"runbook:page handles alert:{alert}" for alert in alerts}
