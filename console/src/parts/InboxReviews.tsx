/** Pages whose review is due or soon due, by owner. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Link from "@cloudscape-design/components/link";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table, { type TableProps } from "@cloudscape-design/components/table";
import { useState } from "react";
import type { ReviewItem } from "../api/schema";
import { Choice } from "./InboxGaps";
import { counted, day, documentLink, Refresh } from "./InboxMore";
import { DUE_DAYS, useReviews } from "./InboxQueries";
import { Loaded } from "./Loaded";
import { ReviewDialog } from "./ReviewDialog";

const SPANS = [
  { value: "0", label: "due today or before" },
  { value: String(DUE_DAYS), label: "due within 30 days" },
  { value: "90", label: "due within 90 days" },
  { value: "365", label: "due within a year" },
];

export function InboxReviews() {
  const [days, setDays] = useState(DUE_DAYS);
  const [owner, setOwner] = useState("");
  const owners = useReviews(days, "").data?.owners ?? [];
  const reviews = useReviews(days, owner);
  const [open, setOpen] = useState<ReviewItem>();
  return (
    <SpaceBetween size="l">
      <SpaceBetween size="m" direction="horizontal">
        <FormField label="Review">
          <Select
            selectedOption={SPANS.find((one) => one.value === String(days)) ?? null}
            options={SPANS}
            expandToViewport
            onChange={({ detail }) => setDays(Number(detail.selectedOption.value))}
          />
        </FormField>
        <Choice label="Owner" value={owner} choices={owners.map((one) => one.owner).filter(Boolean)} change={setOwner} />
      </SpaceBetween>
      <Loaded query={reviews}>
        {({ items, more }) => (
          <SpaceBetween size="s">
            {more ? <StatusIndicator type="info">There are more: filter by owner, or look less far ahead.</StatusIndicator> : null}
            <Table
              wrapLines
              header={
                <Header
                  variant="h2"
                  counter={counted(items, more)}
                  description={owners.map((one) => `${one.owner || "nobody"}: ${one.overdue} overdue of ${one.items}`).join("; ")}
                  actions={<Refresh query={reviews} of="reviews" />}
                >
                  Reviews
                </Header>
              }
              ariaLabels={{ tableLabel: "Pages whose review is due" }}
              columnDefinitions={columns(setOpen)}
              items={items}
              trackBy={(one) => `${one.scope} ${one.source}`}
              empty={<Box textAlign="center">No review is due</Box>}
            />
          </SpaceBetween>
        )}
      </Loaded>
      {open ? <ReviewDialog documentId={open.documentId} title={open.title} onClose={() => setOpen(undefined)} /> : null}
    </SpaceBetween>
  );
}

const columns = (review: (item: ReviewItem) => void): TableProps.ColumnDefinition<ReviewItem>[] => [
  {
    id: "title",
    header: "Page",
    isRowHeader: true,
    minWidth: 220,
    cell: (one) => <Link href={documentLink(one.documentId)}>{one.title}</Link>,
  },
  { id: "due", header: "Due", cell: (one) => <Due item={one} /> },
  { id: "owner", header: "Owner", cell: (one) => one.owner || "nobody" },
  { id: "category", header: "Category", cell: (one) => one.category },
  { id: "updated", header: "Last updated", cell: (one) => day(one.lastUpdated) },
  {
    id: "review",
    header: "Action",
    minWidth: 150,
    cell: (one) => (
      <Button variant="inline-link" ariaLabel={`Mark as reviewed: ${one.title}`} onClick={() => review(one)}>
        Mark as reviewed
      </Button>
    ),
  },
];

function Due({ item }: { item: ReviewItem }) {
  const days = item.overdueDays;
  if (days > 0) return <StatusIndicator type="warning">{`${item.reviewBy}, ${days} days overdue`}</StatusIndicator>;
  return <>{days === 0 ? `${item.reviewBy}, today` : `${item.reviewBy}, in ${-days} days`}</>;
}
