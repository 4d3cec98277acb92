/** Limits of what is shown, as the server states them. */
import Alert from "@cloudscape-design/components/alert";

export function DocumentNotes({ notes, isWarning }: { notes: string[] | undefined; isWarning?: boolean }) {
  return notes?.map((note) => (
    <Alert key={note} type={isWarning ? "warning" : "info"}>
      {note}
    </Alert>
  ));
}
