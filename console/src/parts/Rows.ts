/** Long tables: a screenful is drawn at once, the rest in a rendering that what a person does can interrupt. */
import { useDeferredValue } from "react";

const SCREENFUL = 20;

/** The rows to draw now. */
export function useRows<T>(items: readonly T[]): readonly T[] {
  const drawn = useDeferredValue(items.length, 0);
  return items.slice(0, Math.max(SCREENFUL, drawn));
}
