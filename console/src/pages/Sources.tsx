/** Sources of documents: their pulls with errors and remedies; to add, check, pull and remove them. */
import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Flashbar, { type FlashbarProps } from "@cloudscape-design/components/flashbar";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import type { SourceView } from "../api/schema";
import { Refresh } from "../parts/InboxMore";
import { Loaded } from "../parts/Loaded";
import { SourceActions } from "../parts/SourceActions";
import { SourceCrawl } from "../parts/SourceCrawl";
import { SourceFeeds } from "../parts/SourceFeeds";
import { SourceForm } from "../parts/SourceForm";
import { SourcePrunings } from "../parts/SourcePrunings";
import { type Notice, type Notify, useSources } from "../parts/SourceQueries";
import { SourceTable } from "../parts/SourceTable";

const MOST_NOTICES = 5;

const FLASH_LABELS = {
  ariaLabel: "Messages",
  errorIconAriaLabel: "Error",
  infoIconAriaLabel: "Information",
  successIconAriaLabel: "Success",
  warningIconAriaLabel: "Warning",
};

let nextId = 1;

function useNotices(): [FlashbarProps.MessageDefinition[], Notify] {
  const [notices, setNotices] = useState<(Notice & { id: string })[]>([]);
  const notify: Notify = (notice) =>
    setNotices((before) => [{ ...notice, id: String(nextId++) }, ...before].slice(0, MOST_NOTICES));
  const items = notices.map((one) => ({
    id: one.id,
    type: one.type,
    header: one.text,
    content: one.details?.length ? <Details lines={one.details} /> : undefined,
    dismissible: true,
    dismissLabel: "Dismiss",
    onDismiss: () => setNotices((before) => before.filter(({ id }) => id !== one.id)),
  }));
  return [items, notify];
}

function Details({ lines }: { lines: string[] }) {
  return (
    <>
      {lines.map((line, index) => (
        <div key={index}>{line}</div>
      ))}
    </>
  );
}

type Open = { form: "add" | "crawl" } | { form: "change"; source: SourceView };

export default function Sources() {
  const { query, watch } = useSources();
  const [notices, notify] = useNotices();
  const [open, setOpen] = useState<Open>();
  const close = (): void => setOpen(undefined);
  const registered = (source?: SourceView): void => {
    close();
    if (source) notify({ type: "success", text: `${source.sourceId} is saved: check it, or pull it now.` });
  };
  const buttons = (
    <SpaceBetween size="xs" direction="horizontal">
      <Refresh query={query} of="sources" />
      <Button onClick={() => setOpen({ form: "crawl" })}>Crawl a web site</Button>
      <Button variant="primary" onClick={() => setOpen({ form: "add" })}>
        Add a source
      </Button>
    </SpaceBetween>
  );
  return (
    <ContentLayout header={<Header variant="h1">Sources</Header>} notifications={<Flashbar items={notices} i18nStrings={FLASH_LABELS} />}>
      <SpaceBetween size="l">
        <Loaded query={query}>
          {({ sources }) => (
            <SourceTable
              sources={sources}
              buttons={buttons}
              actions={(source) => (
                <SourceActions source={source} notify={notify} watch={watch} change={(one) => setOpen({ form: "change", source: one })} />
              )}
            />
          )}
        </Loaded>
        <SourceFeeds />
        <SourcePrunings />
      </SpaceBetween>
      {open?.form === "crawl" ? <SourceCrawl notify={notify} watch={watch} close={close} /> : null}
      {open?.form === "add" ? <SourceForm close={registered} /> : null}
      {open?.form === "change" ? <SourceForm source={open.source} close={registered} /> : null}
    </ContentLayout>
  );
}
