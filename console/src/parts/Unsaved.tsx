/** Keeps what a person typed from being lost: whoever leaves a page with unsaved text is asked first. */
import { useEffect, useState } from "react";
import { useBlocker } from "react-router";
import { Confirm } from "./Confirm";

/** Forms with unsaved text. */
const unsaved = new Set<object>();

/** The state of a form that a person types into, for `useState`: leaving the page asks as long as it isn't what it was. The third
 * function ends that: the value is saved, or given up. */
export function useTyped<T>(initial: T | (() => T)) {
  const [start, setStart] = useState(initial);
  const [value, setValue] = useState(start);
  const [form] = useState(() => ({}));
  const isChanged = JSON.stringify(value) !== JSON.stringify(start);
  useEffect(() => {
    if (!isChanged) return;
    unsaved.add(form);
    return () => {
      unsaved.delete(form);
    };
  }, [isChanged, form]);
  const release = (): void => {
    unsaved.delete(form);
    setStart(value);
  };
  return [value, setValue, release] as const;
}

/** Asks before the page is left. A page that replaces its own address, as for another tab, keeps its forms. */
export function LeaveGuard() {
  const blocker = useBlocker(
    ({ currentLocation, nextLocation, historyAction }) =>
      unsaved.size > 0 && !(historyAction === "REPLACE" && nextLocation.pathname === currentLocation.pathname),
  );
  useEffect(() => {
    const ask = (event: BeforeUnloadEvent): void => {
      if (unsaved.size) event.preventDefault();
    };
    window.addEventListener("beforeunload", ask);
    return () => window.removeEventListener("beforeunload", ask);
  }, []);
  if (blocker.state !== "blocked") return null;
  return (
    <Confirm
      header="Leave without saving?"
      action="Leave"
      dismissal="Stay"
      isBusy={false}
      error={null}
      onConfirm={blocker.proceed}
      onDismiss={blocker.reset}
    >
      <div>What you typed here isn’t saved: it is lost if you leave.</div>
    </Confirm>
  );
}
