/** The relations of an answer's evidence, each once. */
import type { EvidencePack, PathStep } from "../api/schema";

export interface Stated {
  step: PathStep;
  /** The document that states it or is about its thing, if one is known. */
  documentId: string;
  title: string;
  at: string;
  /** True if it comes from outside the organisation. */
  isOutside: boolean;
}

interface Related {
  relations: Stated[];
  /** The thing with the most relations, the first of them in the order of the answer. */
  centre: string;
}

export function relatedIn({ items = [] }: Pick<EvidencePack, "items">): Related {
  const relations = new Map<string, Stated>();
  const ends = new Map<string, number>();
  for (const item of items) {
    const path = item.path ?? [];
    path.forEach((step, index) => {
      const key = `${step.from} ${step.edgeType} ${step.to}`;
      const isLast = index === path.length - 1;
      const proof = isLast ? { documentId: item.documentId ?? "", title: item.title, at: item.at } : NO_PROOF;
      const known = relations.get(key);
      if (known?.documentId || (known && !isLast)) return;
      if (!known) for (const end of [step.from, step.to]) ends.set(end, (ends.get(end) ?? 0) + 1);
      relations.set(key, { step, ...proof, isOutside: isLast && Boolean(item.untrusted) });
    });
  }
  const most = Math.max(0, ...ends.values());
  const centre = [...ends].find(([, count]) => count === most)?.[0] ?? "";
  return { relations: [...relations.values()], centre };
}

const NO_PROOF = { documentId: "", title: "", at: "" };
