/** Webhooks and streams, by which documents come without a pull. They are declared in knowledge.yaml or by command. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator, { type StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useQuery } from "@tanstack/react-query";
import { api, ApiError, data } from "../api/client";
import type { ArrivalCount, LastArrival, StreamDefinition, WebhookView } from "../api/schema";
import { counted, moment } from "./InboxMore";
import { Loaded } from "./Loaded";

export function SourceFeeds() {
  const webhooks = useQuery({ queryKey: ["webhooks"], queryFn: () => data(api.GET("/webhooks")) });
  const streams = useQuery({ queryKey: ["streams"], queryFn: () => data(api.GET("/streams")) });
  return (
    <SpaceBetween size="l">
      {isForbidden(webhooks.error) ? null : (
        <Loaded query={webhooks}>
          {({ webhooks: items }) => (
            <Feeds
              title="Webhooks"
              description="Services send documents to them as they change."
              columns={WEBHOOKS}
              items={items}
              empty="No webhooks: `webhooks` of knowledge.yaml declares them"
            />
          )}
        </Loaded>
      )}
      <Loaded query={streams}>
        {({ streams: items, last }) => (
          <Feeds
            title="Streams"
            description="Their records become documents."
            columns={STREAMS}
            items={items.map((one): StreamRow => ({ ...one, last: last?.[one.name] }))}
            empty="No streams: `opx stream add` subscribes to one"
          />
        )}
      </Loaded>
    </SpaceBetween>
  );
}

/** True for callers who manage sources, but not the webhooks of all clients. */
const isForbidden = (error: unknown): boolean => error instanceof ApiError && error.status === 403;

interface FeedsProps<T> {
  title: string;
  description: string;
  columns: TableProps.ColumnDefinition<T>[];
  items: T[];
  empty: string;
}

function Feeds<T>({ title, description, columns, items, empty }: FeedsProps<T>) {
  return (
    <Table
      wrapLines
      header={
        <Header variant="h2" counter={counted(items)} description={description}>
          {title}
        </Header>
      }
      ariaLabels={{ tableLabel: title }}
      columnDefinitions={columns}
      items={items}
      trackBy="name"
      empty={<Box textAlign="center">{empty}</Box>}
    />
  );
}

const anywhere = (text: string) => <span style={{ overflowWrap: "anywhere" }}>{text}</span>;

const WEBHOOKS: TableProps.ColumnDefinition<WebhookView>[] = [
  { id: "name", header: "Webhook", isRowHeader: true, minWidth: 140, cell: (one) => <strong>{one.name}</strong> },
  { id: "format", header: "Format", cell: (one) => one.format },
  { id: "category", header: "Category", cell: (one) => one.category },
  { id: "state", header: "Secrets", minWidth: 190, cell: (one) => <Secrets webhook={one} /> },
  { id: "last", header: "Last delivery", minWidth: 200, cell: (one) => <Last last={one.last} /> },
  { id: "address", header: "Address", minWidth: 200, cell: (one) => anywhere(one.address) },
];

/** The last arrivals by their outcome. Counts are the least that came: not each one is written. */
function Last({ last }: { last?: LastArrival | null }) {
  if (!last?.accepted && !last?.ignored && !last?.refused) return <>never</>;
  return (
    <>
      <LastOf type="success" word="accepted" one={last.accepted} />
      <LastOf type="info" word="ignored" one={last.ignored} />
      <LastOf type="error" word="refused" one={last.refused} />
    </>
  );
}

function LastOf({ type, word, one }: { type: StatusIndicatorProps.Type; word: string; one?: ArrivalCount | null }) {
  if (!one) return null;
  const reason = one.reason ? ` (${one.reason.replaceAll("_", " ")})` : "";
  return (
    <div>
      <StatusIndicator type={type}>{`${word}${reason} ${moment(one.at)}, ${one.count} in all`}</StatusIndicator>
    </div>
  );
}

/** A webhook refuses all deliveries until one of its secrets is set. */
function Secrets({ webhook }: { webhook: WebhookView }) {
  if (!webhook.secrets.length) return <StatusIndicator>AWS signs its deliveries</StatusIndicator>;
  return (
    <>
      {webhook.secrets.map(({ name, isSet }) => (
        <div key={name}>
          {isSet === null || isSet === undefined ? (
            <StatusIndicator type="info">{`${name}: in Secrets Manager`}</StatusIndicator>
          ) : (
            <StatusIndicator type={isSet ? "success" : "stopped"}>{`${name}: ${isSet ? "set" : "not set"}`}</StatusIndicator>
          )}
        </div>
      ))}
    </>
  );
}

type StreamRow = StreamDefinition & { last?: LastArrival };

const STREAMS: TableProps.ColumnDefinition<StreamRow>[] = [
  { id: "name", header: "Stream", isRowHeader: true, minWidth: 140, cell: (one) => <strong>{one.name}</strong> },
  { id: "category", header: "Category", cell: (one) => one.category },
  { id: "last", header: "Last record", minWidth: 200, cell: (one) => <Last last={one.last} /> },
  { id: "source", header: "Address", minWidth: 200, cell: (one) => anywhere(one.topic ? `${one.source} ${one.topic}` : one.source) },
  {
    id: "filter",
    header: "Filter",
    minWidth: 140,
    cell: (one) => (Object.keys(one.filter ?? {}).length ? anywhere(JSON.stringify(one.filter)) : "all records"),
  },
];
