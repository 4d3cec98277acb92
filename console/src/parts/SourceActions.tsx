/** Actions on one source. Those that remove something ask first. */
import ButtonDropdown, { type ButtonDropdownProps } from "@cloudscape-design/components/button-dropdown";
import { useState } from "react";
import type { SourceView } from "../api/schema";
import { Confirm } from "./Confirm";
import { type Notify, type Pull, useChange, useCheck, usePull, useRemove } from "./SourceQueries";

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
    source.enabled ? { id: "pause", text: "Pause" } : { id: "resume", text: "Resume" },
    ...(source.declared ? [] : [{ id: "change", text: "Change" }, { id: "remove", text: "Remove" }]),
  ];
}

export function SourceActions({ source, notify, watch, change }: Props) {
  const [asking, setAsking] = useState<"accept" | "remove">();
  const pull = usePull(source.sourceId, { notify, watch });
  const check = useCheck(source.sourceId, notify);
  const switched = useChange(({ sourceId, enabled }) =>
    notify({ type: "success", text: enabled ? `${sourceId} is pulled on schedule again` : `${sourceId} is paused: it is pulled on request only` }),
  );
  const turn = (enabled: boolean): void =>
    switched.mutate({ sourceId: source.sourceId, enabled }, { onError: (error) => notify({ type: "error", text: `${source.sourceId}: ${error.message}` }) });
  const act: Record<string, () => void> = {
    pull: () => pull.mutate(NOW),
    everything: () => pull.mutate({ ...NOW, everything: true }),
    accept: () => setAsking("accept"),
    check: () => check.mutate(),
    pause: () => turn(false),
    resume: () => turn(true),
    change: () => change(source),
    remove: () => setAsking("remove"),
  };
  return (
    <>
      <ButtonDropdown
        items={itemsOf(source)}
        expandToViewport
        loading={pull.isPending || check.isPending || switched.isPending}
        loadingText={`${source.sourceId} is being asked`}
        ariaLabel={`Actions of ${source.sourceId}`}
        onItemClick={({ detail }) => act[detail.id]?.()}
      >
        Actions
      </ButtonDropdown>
      {asking === "remove" ? <Removal source={source} notify={notify} close={() => setAsking(undefined)} /> : null}
      {asking === "accept" ? (
        <Confirm
          header={`Withdraw what ${source.sourceId} misses?`}
          action="Withdraw"
          isBusy={false}
          error={null}
          onDismiss={() => setAsking(undefined)}
          onConfirm={() => {
            pull.mutate({ ...NOW, acceptMissing: true });
            setAsking(undefined);
          }}
        >
          <p>{source.state.flag}</p>
          <p>The source is pulled now, and all documents that it doesn’t list any more are withdrawn, however many.</p>
        </Confirm>
      ) : null}
    </>
  );
}

function Removal({ source, notify, close }: { source: SourceView; notify: Notify; close: () => void }) {
  const remove = useRemove(source.sourceId, notify);
  return (
    <Confirm
      header={`Remove ${source.sourceId}?`}
      action="Remove"
      isBusy={remove.isPending}
      error={remove.error}
      onDismiss={close}
      onConfirm={() => remove.mutate()}
    >
      <p>It is pulled no more, and the state of its pulls is deleted. Its documents stay.</p>
    </Confirm>
  );
}
