/** Actions on one source. Those that remove something ask first. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown, { type ButtonDropdownProps } from "@cloudscape-design/components/button-dropdown";
import Modal from "@cloudscape-design/components/modal";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { type ReactNode, useState } from "react";
import type { SourceView } from "../api/schema";
import { Problem } from "./Failed";
import { type Notify, type Pull, useCheck, usePull, useRemove } from "./SourceQueries";

interface Props {
  source: SourceView;
  notify: Notify;
  watch: () => void;
  change: (source: SourceView) => void;
}

const NOW: Pull = { everything: false, acceptMissing: false };

function itemsOf(source: SourceView): ButtonDropdownProps.Item[] {
  return [
    { id: "pull", text: "Pull now" },
    { id: "everything", text: "Pull everything again" },
    ...(source.state.flag ? [{ id: "accept", text: "Withdraw what is missing" }] : []),
    { id: "check", text: "Check" },
    ...(source.declared ? [] : [{ id: "change", text: "Change or pause" }, { id: "remove", text: "Remove" }]),
  ];
}

export function SourceActions({ source, notify, watch, change }: Props) {
  const [asking, setAsking] = useState<"accept" | "remove">();
  const pull = usePull(source.sourceId, { notify, watch });
  const check = useCheck(source.sourceId, notify);
  const act: Record<string, () => void> = {
    pull: () => pull.mutate(NOW),
    everything: () => pull.mutate({ ...NOW, everything: true }),
    accept: () => setAsking("accept"),
    check: () => check.mutate(),
    change: () => change(source),
    remove: () => setAsking("remove"),
  };
  return (
    <>
      <ButtonDropdown
        items={itemsOf(source)}
        expandToViewport
        loading={pull.isPending || check.isPending}
        loadingText={`${source.sourceId} is being asked`}
        ariaLabel={`Actions of ${source.sourceId}`}
        onItemClick={({ detail }) => act[detail.id]?.()}
      >
        Actions
      </ButtonDropdown>
      {asking === "remove" ? <Removal source={source} notify={notify} close={() => setAsking(undefined)} /> : null}
      {asking === "accept" ? (
        <Question
          title={`Withdraw what ${source.sourceId} misses?`}
          yes="Withdraw"
          close={() => setAsking(undefined)}
          act={() => {
            pull.mutate({ ...NOW, acceptMissing: true });
            setAsking(undefined);
          }}
        >
          <p>{source.state.flag}</p>
          <p>The source is pulled now, and all documents that it doesn’t list any more are withdrawn, however many.</p>
        </Question>
      ) : null}
    </>
  );
}

function Removal({ source, notify, close }: { source: SourceView; notify: Notify; close: () => void }) {
  const remove = useRemove(source.sourceId, notify);
  return (
    <Question title={`Remove ${source.sourceId}?`} yes="Remove" busy={remove.isPending} close={close} act={() => remove.mutate()}>
      <p>It is pulled no more, and the state of its pulls is deleted. Its documents stay.</p>
      {remove.error ? <Problem error={remove.error} /> : null}
    </Question>
  );
}

interface QuestionProps {
  title: string;
  yes: string;
  busy?: boolean;
  act: () => void;
  close: () => void;
  children: ReactNode;
}

function Question({ title, yes, busy = false, act, close, children }: QuestionProps) {
  return (
    <Modal
      visible
      header={title}
      closeAriaLabel="Close"
      onDismiss={close}
      footer={
        <Box float="right">
          <SpaceBetween size="xs" direction="horizontal">
            <Button onClick={close}>Cancel</Button>
            <Button variant="primary" loading={busy} onClick={act}>
              {yes}
            </Button>
          </SpaceBetween>
        </Box>
      }
    >
      {children}
    </Modal>
  );
}
