/** The report of a removal: counts before and after in every store, which prove that nothing is left. */
import Alert from "@cloudscape-design/components/alert";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { RemovalReport } from "../api/schema";
import { moment } from "./InboxMore";
import { Loaded } from "./Loaded";

export function TenantReport({ clientId }: { clientId: string }) {
  const report = useQuery({
    queryKey: ["clients", clientId, "removal"],
    queryFn: () => data(api.GET("/clients/{clientId}/removal", { params: { path: { clientId } } })),
  });
  return <Loaded query={report}>{(found) => <Proof report={found} />}</Loaded>;
}

function Proof({ report }: { report: RemovalReport }) {
  const left = Object.values(report.left ?? {}).reduce((sum, count) => sum + count, 0);
  const rows = [
    ...Object.entries(report.stores).map(([name, counts]) => ({ name, ...counts })),
    ...Object.entries(report.checks).map(([name, counts]) => ({ name: `check: ${name}`, ...counts })),
  ];
  return (
    <SpaceBetween size="m">
      <Alert type={left ? "error" : "success"} header={left ? `${left} items are left` : "Nothing is left in any store"}>
        {report.notes?.map((note) => <div key={note}>{note}</div>)}
      </Alert>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Removed", value: `${moment(report.startedAt)} to ${moment(report.finishedAt)}` },
          { label: "By", value: report.by || "an unnamed operator" },
          { label: "SHA-256 of the report", value: <span style={{ overflowWrap: "anywhere" }}>{report.sha256}</span> },
        ]}
      />
      <Table
        items={rows}
        trackBy="name"
        header={<Header variant="h3">Counts before and after</Header>}
        ariaLabels={{ tableLabel: "Counts before and after" }}
        columnDefinitions={[
          { id: "name", header: "Store", isRowHeader: true, cell: (one) => one.name },
          { id: "before", header: "Before", cell: (one) => one.before.toLocaleString("en") },
          { id: "after", header: "After", cell: (one) => one.after.toLocaleString("en") },
        ]}
      />
    </SpaceBetween>
  );
}
