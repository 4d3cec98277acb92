/** A drawing of things and their relations. The table beside it has the same for keyboards and screen readers. */
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { Core, ElementDefinition, StylesheetJson } from "cytoscape";
import { useEffect, useEffectEvent, useRef, useState } from "react";
import type { PathStep } from "../api/schema";
import { useCode } from "./Code";
import "./GraphDrawing.css";
import { nameOf, relationOf, typeOf, type Names } from "./GraphTerms";
import { Loaded } from "./Loaded";

interface Props {
  label: string;
  start: string;
  relations: PathStep[];
  names?: Names;
  isSmall?: boolean;
  /** Called with the thing that was chosen. */
  onOpen: (key: string) => void;
}

/** Cytoscape adds a style element to the page unless there is an element with this id. The page's security policy forbids
 * style elements; the rule in it is in GraphDrawing.css. */
const STYLE_ID = "__________cytoscape_stylesheet";

const RADIUS = 160;
/** Distance of two circles at the start of the layout, in pixels. */

const CROWDED = 20;
/** With more relations than this, only things have labels in the drawing, and short ones; the tables have all of it. */

const SHORT = 24;
/** Characters of a name in a crowded drawing. */

export function GraphDrawing(props: Props) {
  const library = useCode("cytoscape", () => import("cytoscape"));
  return <Loaded query={library}>{({ default: cytoscape }) => <Drawing {...props} cytoscape={cytoscape} />}</Loaded>;
}

type Cytoscape = typeof import("cytoscape");

function Drawing({ label, start, relations, names, isSmall, onOpen, cytoscape }: Props & { cytoscape: Cytoscape }) {
  const box = useRef<HTMLDivElement>(null);
  const drawing = useRef<Core>(null);
  const [problem, setProblem] = useState("");
  const open = useEffectEvent(onOpen);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    const draw = async (): Promise<void> => {
      const core = cytoscape({
        container: element,
        elements: elementsOf(start, relations, names ?? {}),
        style: styleOf(element, relations.length > CROWDED),
        layout: {
          name: "cose",
          animate: false,
          randomize: false,
          idealEdgeLength: () => 90,
          nodeRepulsion: () => 60_000,
          nodeOverlap: 20,
          nodeDimensionsIncludeLabels: true,
        },
        userZoomingEnabled: false,
        boxSelectionEnabled: false,
        maxZoom: 2,
      });
      const wide = core.width() / core.height();
      core.nodes().positions((node) => ({ x: node.position("x") * wide, y: node.position("y") }));
      core.fit(undefined, 20);
      core.on("tap", "node", (event) => open(String(event.target.id())));
      drawing.current = core;
    };
    draw().catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
    const recolour = new MutationObserver(() => drawing.current?.style(styleOf(element, relations.length > CROWDED)));
    recolour.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    return () => {
      recolour.disconnect();
      drawing.current?.destroy();
      drawing.current = null;
    };
  }, [start, relations, names, cytoscape]);
  const zoom = (factor: number): void => {
    const core = drawing.current;
    core?.zoom({ level: core.zoom() * factor, renderedPosition: { x: core.width() / 2, y: core.height() / 2 } });
  };
  return (
    <SpaceBetween size="xs">
      <span id={STYLE_ID} hidden />
      {problem ? <Box color="text-status-error">The drawing failed: {problem}</Box> : null}
      <div ref={box} className={isSmall ? "opx-graph opx-graph-small" : "opx-graph"} role="img" aria-label={label} />
      <SpaceBetween size="xs" direction="horizontal">
        <Button iconName="zoom-in" ariaLabel="Zoom in" onClick={() => zoom(1.3)} />
        <Button iconName="zoom-out" ariaLabel="Zoom out" onClick={() => zoom(1 / 1.3)} />
        <Button onClick={() => drawing.current?.fit(undefined, 20)}>Show all</Button>
      </SpaceBetween>
    </SpaceBetween>
  );
}

function elementsOf(start: string, relations: PathStep[], names: Names): ElementDefinition[] {
  const circles = circlesOf(start, relations);
  const nodes = circles.flatMap((circle, distance) =>
    circle.map((key, index) => {
      const angle = (2 * Math.PI * index) / circle.length + distance;
      return {
        group: "nodes" as const,
        data: {
          id: key,
          label: `${shortened(nameOf(key, names), relations.length)}\n(${typeOf(key)})`,
          kind: key === start ? "start" : typeOf(key),
        },
        position: { x: Math.cos(angle) * RADIUS * distance, y: Math.sin(angle) * RADIUS * distance },
      };
    }),
  );
  const edges = relations.map((one, index) => ({
    group: "edges" as const,
    data: { id: `relation ${index}`, source: one.from, target: one.to, label: relations.length > CROWDED ? "" : relationOf(one.edgeType) },
  }));
  return [...nodes, ...edges];
}

const shortened = (name: string, relations: number): string =>
  relations > CROWDED && name.length > SHORT ? `${name.slice(0, SHORT)}…` : name;

/** Things by their distance from the first, which gives every layout of the same relations the same start. */
function circlesOf(start: string, relations: PathStep[]): string[][] {
  const seen = new Set([start]);
  const circles: string[][] = [[start]];
  for (let circle = circles[0] ?? []; circle.length; ) {
    const inner = new Set(circle);
    const next = relations.flatMap((one) => [
      ...(inner.has(one.from) ? [one.to] : []),
      ...(inner.has(one.to) ? [one.from] : []),
    ]);
    circle = [...new Set(next)].filter((key) => !seen.has(key));
    circle.forEach((key) => seen.add(key));
    if (circle.length) circles.push(circle);
  }
  const rest = relations.flatMap((one) => [one.from, one.to]).filter((key) => !seen.has(key));
  return rest.length ? [...circles, [...new Set(rest)]] : circles;
}

function styleOf(element: HTMLElement, isCrowded: boolean): StylesheetJson {
  const computed = getComputedStyle(element);
  const colour = (name: string): string => computed.getPropertyValue(`--opx-graph-${name}`).trim();
  const text = {
    label: "data(label)",
    color: colour("text"),
    "font-size": isCrowded ? 20 : 12,
    "text-wrap": "wrap" as const,
    "text-max-width": isCrowded ? "200px" : "130px",
    "text-background-color": colour("ground"),
    "text-background-opacity": 0.8,
  };
  return [
    { selector: "node", style: { ...text, width: 24, height: 24, "background-color": colour("thing"), "text-valign": "bottom" } },
    { selector: 'node[kind = "document"]', style: { shape: "round-rectangle", "background-color": colour("document") } },
    { selector: 'node[kind = "start"]', style: { width: 36, height: 36, "background-color": colour("start") } },
    {
      selector: "edge",
      style: {
        ...text,
        "font-size": 10,
        width: 1.5,
        "line-color": colour("line"),
        "target-arrow-color": colour("line"),
        "target-arrow-shape": "triangle",
        "curve-style": "bezier",
        "text-rotation": "autorotate",
      },
    },
  ];
}
