/** Things that documents speak of, and their relations: find, follow, connect, name. Everything shown has an address. */
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useSearchParams } from "react-router";
import { GraphAliases } from "../parts/GraphAliases";
import { GraphFind } from "../parts/GraphFind";
import { GraphMerges } from "../parts/GraphMerges";
import { GraphPath } from "../parts/GraphPath";
import { GraphThing } from "../parts/GraphThing";

export default function Graph() {
  const [params, setParams] = useSearchParams();
  const value = (name: string): string => params.get(name) ?? "";
  const thing = value("ref");
  const open = (ref: string): void => setParams({ ref });
  return (
    <SpaceBetween size="l">
      <Header variant="h1">Graph</Header>
      <Tabs
        ariaLabel="Parts of the graph"
        i18nStrings={{ scrollLeftAriaLabel: "Show the tabs before", scrollRightAriaLabel: "Show the tabs after" }}
        activeTabId={value("tab") || "things"}
        onChange={({ detail }) => setParams(detail.activeTabId === "things" ? {} : { tab: detail.activeTabId })}
        tabs={[
          {
            id: "things",
            label: "Things",
            content: (
              <SpaceBetween size="l">
                <GraphFind key={`${value("q")} ${value("type")}`} text={value("q")} type={value("type")} onFind={(q, type) => setParams({ q, ...(type ? { type } : {}) })} />
                {thing ? (
                  <GraphThing
                    key={thing}
                    thing={thing}
                    view={value("view") || "around"}
                    onView={(view) => setParams({ ref: thing, view })}
                    onOpen={open}
                  />
                ) : null}
              </SpaceBetween>
            ),
          },
          {
            id: "path",
            label: "Path",
            content: (
              <GraphPath
                key={`${value("from")} ${value("to")}`}
                from={value("from")}
                to={value("to")}
                onFind={(from, to) => setParams({ tab: "path", from, to })}
                onOpen={open}
              />
            ),
          },
          { id: "aliases", label: "Aliases", content: <GraphAliases /> },
          { id: "merges", label: "Merges", content: <GraphMerges /> },
        ]}
      />
    </SpaceBetween>
  );
}
