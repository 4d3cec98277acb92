/** The last step of long work, and a button that stops it. */
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import type { Reply } from "../api/client";
import { followed } from "../api/jobs";
import { Problem } from "./Failed";

/** Long work of a component: `follow` is given its request, and has the reply at the end. */
export interface Work {
  step: string;
  stop: (() => Promise<void>) | undefined;
  follow: <T>(call: Promise<Reply<T>>) => Promise<T>;
  setStep: (step: string) => void;
}

/** `onStep` gets each step. */
export function useWork(onStep: (step: string) => void = () => undefined): Work {
  const [step, setStep] = useState("");
  const [stop, setStop] = useState<() => Promise<void>>();
  const follow = async <T,>(call: Promise<Reply<T>>): Promise<T> => {
    setStep("");
    try {
      const noted = ({ step: text }: { step: string }): void => {
        setStep(text);
        onStep(text);
      };
      return await followed(call, noted, (cancel) => setStop(() => cancel));
    } finally {
      setStop(undefined);
    }
  };
  return { step, stop, follow, setStep };
}

export function Progress({ step, stop }: { step: string | undefined; stop?: Work["stop"] }) {
  const stopping = useMutation({ mutationFn: () => stop?.() ?? Promise.resolve() });
  return (
    <SpaceBetween size="xs">
      <SpaceBetween size="s" direction="horizontal" alignItems="center">
        <div role="status">
          <StatusIndicator type="in-progress">{stopping.isSuccess ? `${step ?? ""} (stopping)` : step || "started"}</StatusIndicator>
        </div>
        {stop ? (
          <Button loading={stopping.isPending} disabled={stopping.isSuccess} onClick={() => stopping.mutate()}>
            Stop
          </Button>
        ) : null}
      </SpaceBetween>
      {stopping.error ? <Problem error={stopping.error} /> : null}
    </SpaceBetween>
  );
}
