/** What can be done about a gap: a draft, an owner, closing, ignoring, opening it again. */
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data } from "../api/client";
import type { GapView } from "../api/schema";
import { Confirm } from "./Confirm";
import { useTyped } from "./Unsaved";

export type GapAction = "assign" | "close" | "ignore" | "reopen";

interface Words {
  header: string;
  action: string;
  about: string;
  label: string;
  isRequired: boolean;
}

const WORDS: Record<GapAction, Words> = {
  assign: {
    header: "Assign this gap?",
    action: "Assign",
    about: "The owner keeps it when the question is asked again. Empty: the owner by service and category.",
    label: "Owner",
    isRequired: false,
  },
  close: {
    header: "Close this gap?",
    action: "Close the gap",
    about: "It is opened again once the question is asked without an answer.",
    label: "Reason",
    isRequired: true,
  },
  ignore: {
    header: "Ignore this gap?",
    action: "Ignore the gap",
    about: "It stays ignored, however often the question is asked, until somebody opens it again.",
    label: "Reason",
    isRequired: false,
  },
  reopen: { header: "Open this gap again?", action: "Open it again", about: "It is listed again.", label: "", isRequired: false },
};

const TEXTS: Record<GapAction, string> = { assign: "Assign", close: "Close", ignore: "Ignore", reopen: "Open again" };

interface ActionsProps {
  gap: GapView;
  choose: (action: GapAction) => void;
}

export function GapActions({ gap, choose }: ActionsProps) {
  const actions: GapAction[] = gap.status === "open" ? ["assign", "close", "ignore"] : ["reopen"];
  return (
    <ButtonDropdown
      variant="icon"
      expandToViewport
      ariaLabel={`Actions for the gap: ${gap.question}`}
      items={actions.map((id) => ({ id, text: TEXTS[id] }))}
      onItemClick={({ detail }) => choose(detail.id as GapAction)}
    />
  );
}

function changed({ gapId }: GapView, action: GapAction, text: string): Promise<GapView> {
  const params = { path: { gapId } };
  if (action === "assign") return data(api.PUT("/gaps/{gapId}/owner", { params, body: { owner: text } }));
  const body = { because: text, ignore: action === "ignore", reopen: action === "reopen" };
  return data(api.POST("/gaps/{gapId}/settlement", { params, body }));
}

/** Changes a gap, and reads the lists of gaps again. */
export function useGapChange(gap: GapView, done: () => void) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: ({ action, text }: { action: GapAction; text: string }) => changed(gap, action, text),
    onSuccess: done,
    onSettled: () => queries.invalidateQueries({ queryKey: ["gaps"] }),
  });
}

interface DialogProps {
  gap: GapView;
  action: GapAction;
  close: () => void;
}

export function GapDialog({ gap, action, close }: DialogProps) {
  const words = WORDS[action];
  const [text, setText] = useTyped(action === "assign" ? gap.owner : "");
  const change = useGapChange(gap, close);
  return (
    <Confirm
      header={words.header}
      action={words.action}
      isBusy={change.isPending}
      isIncomplete={words.isRequired && !text.trim()}
      error={change.error}
      onConfirm={() => change.mutate({ action, text: text.trim() })}
      onDismiss={close}
    >
      <div>
        “{gap.question}”. {words.about}
      </div>
      {words.label ? (
        <FormField label={words.label}>
          <Input value={text} onChange={({ detail }) => setText(detail.value)} />
        </FormField>
      ) : null}
    </Confirm>
  );
}
