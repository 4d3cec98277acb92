/** The procedure of the current version, step by step. */
import Box from "@cloudscape-design/components/box";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { StepView } from "../api/schema";
import { DocumentNotes } from "./DocumentNotes";
import { DocumentPaged } from "./DocumentPaged";
import { usePart } from "./DocumentQueries";
import { Steps } from "./Steps";

export function DocumentSteps({ documentId }: { documentId: string }) {
  const query = usePart(documentId, "steps");
  return (
    <DocumentPaged query={query}>
      {(pages) => {
        const steps = unique(pages.flatMap((page) => page.steps ?? []));
        return (
          <SpaceBetween size="m">
            <Header variant="h2">Steps of the current version</Header>
            <DocumentNotes notes={pages[0].notes} />
            <DocumentNotes notes={pages[0].warnings} isWarning />
            {steps.length ? <Steps documentId={documentId} steps={steps} /> : <Box>It has no steps.</Box>}
          </SpaceBetween>
        );
      }}
    </DocumentPaged>
  );
}

/** Steps without those that two pages have, of which one is cut by the page. */
const unique = (steps: StepView[]): StepView[] => [...new Map(steps.map((step) => [step.stepId, step])).values()];
