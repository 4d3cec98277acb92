/** The question and the day as of which it is asked. What is typed is kept here, so that an answer isn't drawn again for it. */
import Button from "@cloudscape-design/components/button";
import DateInput from "@cloudscape-design/components/date-input";
import FormField from "@cloudscape-design/components/form-field";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { useTyped } from "./Unsaved";

interface Props {
  asked: string;
  asOf: string;
  onAsk: (question: string, day: string) => void;
}

export function AskForm({ asked, asOf, onAsk }: Props) {
  const [text, setText, release] = useTyped(asked);
  const [day, setDay] = useState(asOf);
  const submit = (): void => {
    const question = text.trim();
    if (!question) return;
    release();
    onAsk(question, day);
  };
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
    >
      <SpaceBetween size="s">
        <FormField label="Alert, log or question" stretch>
          <Textarea
            autoFocus
            rows={3}
            value={text}
            placeholder="Paste an alert, or ask: why do pods keep restarting?"
            onChange={({ detail }) => setText(detail.value)}
            onKeyDown={(event) => {
              if (event.detail.key === "Enter" && !event.detail.shiftKey && !text.includes("\n")) {
                event.preventDefault();
                submit();
              }
            }}
          />
        </FormField>
        <SpaceBetween size="s" direction="horizontal" alignItems="end">
          <Button variant="primary" formAction="submit">
            Ask
          </Button>
          <FormField label="As known on" description="Leave empty for today">
            <DateInput value={day} placeholder="YYYY-MM-DD" format="iso" onChange={({ detail }) => setDay(detail.value)} />
          </FormField>
        </SpaceBetween>
      </SpaceBetween>
    </form>
  );
}
