/** Work for the people who keep the knowledge: each tab is a list of things to do. */
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { InboxContradictions } from "../parts/InboxContradictions";
import { InboxDraft } from "../parts/InboxDraft";
import { InboxDuplicates } from "../parts/InboxDuplicates";
import { InboxEntries } from "../parts/InboxEntries";
import { InboxFailures } from "../parts/InboxFailures";
import { InboxGaps } from "../parts/InboxGaps";
import { count, counted, TAB_LABELS } from "../parts/InboxMore";
import { DUE_DAYS, NO_FILTER, useEntries, useFailures, useGaps, useReviews, useSecrets } from "../parts/InboxQueries";
import { InboxRemarks } from "../parts/InboxRemarks";
import { InboxReviews } from "../parts/InboxReviews";
import { InboxSecrets } from "../parts/InboxSecrets";

export default function Inbox() {
  const [params, setParams] = useSearchParams();
  const gaps = useGaps(NO_FILTER).data;
  const reviews = useReviews(DUE_DAYS, "").data;
  const failures = count(useFailures(), (page) => page.failures);
  const secrets = count(useSecrets(), (page) => page.documents);
  const entries = count(useEntries(), (page) => page.entries);
  const draft = params.get("draft");
  if (draft) {
    return (
      <ContentLayout header={<Header variant="h1">Inbox</Header>}>
        <InboxDraft key={draft} gapId={draft} onClose={() => setParams({})} />
      </ContentLayout>
    );
  }
  return (
    <ContentLayout header={<Header variant="h1">Inbox</Header>}>
      <Tabs
        ariaLabel="Lists of the inbox"
        i18nStrings={TAB_LABELS}
        activeTabId={params.get("tab") ?? "gaps"}
        onChange={({ detail }) => setParams({ tab: detail.activeTabId })}
        tabs={[
          { id: "gaps", label: `Gaps ${counted(gaps?.gaps, gaps?.more)}`, content: <InboxGaps /> },
          { id: "failures", label: `Failed ${failures}`, content: <InboxFailures /> },
          { id: "reviews", label: `Reviews ${counted(reviews?.items, reviews?.more)}`, content: <InboxReviews /> },
          { id: "secrets", label: `Secrets ${secrets}`, content: <InboxSecrets /> },
          { id: "learnings", label: `Unverified ${entries}`, content: <InboxEntries /> },
          { id: "flagged", label: "Flagged", content: <InboxRemarks /> },
          { id: "duplicates", label: "Near-duplicates", content: <InboxDuplicates /> },
          { id: "contradictions", label: "Contradictions", content: <InboxContradictions /> },
        ]}
      />
    </ContentLayout>
  );
}
