/** Estimated costs of this month so far and of the last one, by service and by client. */
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { Costs, MonthCosts } from "../api/schema";
import { Loaded } from "./Loaded";

export function HealthCosts() {
  const costs = useQuery({ queryKey: ["costs"], queryFn: () => data(api.GET("/costs")) });
  return <Loaded query={costs}>{(found) => <MonthsCosts costs={found} />}</Loaded>;
}

export function MonthsCosts({ costs }: { costs: Costs }) {
  return (
    <SpaceBetween size="l">
      {costs.isBilled ? (
        <LeftOut costs={costs} />
      ) : (
        <Alert type="info">This system runs on this machine: AWS bills nothing for it. Its use is shown all the same.</Alert>
      )}
      {costs.months.map((month) => (
        <Month key={month.month} month={month} costs={costs} />
      ))}
    </SpaceBetween>
  );
}

function LeftOut({ costs }: { costs: Costs }) {
  return (
    <Alert type="info" header="An estimate, no bill">
      The use that was counted each night, with prices of {costs.pricesOf} in us-east-1.
      <ExpandableSection headerText="What it leaves out">
        <ul>
          {costs.leftOut.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      </ExpandableSection>
    </Alert>
  );
}

const dollars = (amount: number): string => `$${amount.toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;

function Month({ month, costs }: { month: MonthCosts; costs: Costs }) {
  const { isBilled, budget } = costs;
  return (
    <SpaceBetween size="m">
      <Header variant="h2" description={month.days === 1 ? "1 day was counted" : `${month.days} days were counted`}>
        {month.month}
      </Header>
      <KeyValuePairs
        columns={3}
        items={[
          { label: isBilled ? "Costs, about" : "Costs", value: <Box fontSize="display-l">{dollars(month.dollars)}</Box> },
          ...(budget ? [{ label: "Budget", value: <Budget spent={month.dollars} budget={budget} /> }] : []),
          ...(isBilled ? [{ label: "Due without any use", value: dollars(month.unused) }] : []),
        ]}
      />
      <Clients month={month} isBilled={isBilled} />
      {isBilled ? <Services month={month} /> : null}
    </SpaceBetween>
  );
}

function Budget({ spent, budget }: { spent: number; budget: number }) {
  const share = Math.round((100 * spent) / budget);
  return <StatusIndicator type={share > 100 ? "warning" : "success"}>{`${share} % of ${dollars(budget)}`}</StatusIndicator>;
}

function Clients({ month, isBilled }: { month: MonthCosts; isBilled: boolean }) {
  const number = (value: number | null): string => (value === null ? "no audit log" : value.toLocaleString("en"));
  return (
    <Table
      items={month.clients}
      trackBy="clientId"
      ariaLabels={{ tableLabel: `Costs by client in ${month.month}` }}
      header={<Header variant="h3">By client</Header>}
      empty="Nothing was counted in this month"
      footer={month.otherClients ? `Other clients: ${dollars(month.otherClients)}` : undefined}
      columnDefinitions={[
        { id: "client", header: "Client", isRowHeader: true, cell: (one) => one.clientId || "global" },
        { id: "questions", header: "Questions", cell: (one) => number(one.questions) },
        { id: "documents", header: "Documents", cell: (one) => number(one.documents) },
        { id: "chunks", header: "Passages", cell: (one) => number(one.chunks) },
        { id: "newDocuments", header: "New documents", cell: (one) => number(one.newDocuments) },
        { id: "newTokens", header: "Embedded tokens", cell: (one) => number(one.newTokens) },
        ...(isBilled ? [{ id: "dollars", header: "Costs", cell: (one: { dollars: number }) => dollars(one.dollars) }] : []),
      ]}
    />
  );
}

function Services({ month }: { month: MonthCosts }) {
  return (
    <Table
      items={month.services}
      trackBy="service"
      ariaLabels={{ tableLabel: `Costs by service in ${month.month}` }}
      header={<Header variant="h3">By service</Header>}
      columnDefinitions={[
        { id: "service", header: "Service", isRowHeader: true, cell: (one) => one.service },
        { id: "dollars", header: "Costs", cell: (one) => dollars(one.dollars) },
      ]}
    />
  );
}
