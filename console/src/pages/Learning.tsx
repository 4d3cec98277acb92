/** What was learned from work: patterns, and the entries that they are made of. */
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { LearningEntries } from "../parts/LearningEntries";
import { LearningPattern } from "../parts/LearningPattern";
import { LearningPatterns } from "../parts/LearningPatterns";

export default function Learning() {
  const [params, setParams] = useSearchParams();
  const patternId = params.get("pattern");
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Learning</Header>
      <Tabs
        ariaLabel="Parts of learning"
        i18nStrings={{ scrollLeftAriaLabel: "Show the tabs before", scrollRightAriaLabel: "Show the tabs after" }}
        activeTabId={params.get("tab") ?? "patterns"}
        onChange={({ detail }) => setParams(detail.activeTabId === "patterns" ? {} : { tab: detail.activeTabId })}
        tabs={[
          {
            id: "patterns",
            label: "Patterns",
            content: patternId ? <LearningPattern key={patternId} patternId={patternId} /> : <LearningPatterns />,
          },
          { id: "entries", label: "Entries", content: <LearningEntries /> },
        ]}
      />
    </SpaceBetween>
  );
}
