import { useEffect, useState } from 'preact/hooks';
import type {
  ConsoleDecision,
  ConsolePlanned,
  ConsolePlanner,
  ConsolePlannerHead,
  ConsolePoint,
} from '../../shared/console/planner/wire.ts';
import { follow, type LinkState } from '../server.ts';

/** The records of a planner as the page knows them. */
export interface Planner extends ConsolePlannerHead {
  /** The oldest first. */
  readonly points: readonly ConsolePoint[];
  /** The newest first. */
  readonly decisions: readonly ConsoleDecision[];
}

function changed(before: Planner, told: ConsolePlanned): Planner {
  const { points, points_gone, decisions, decisions_gone, ...head } = told;
  const ofStep = ({ step }: ConsolePoint): number => step;
  const ofId = ({ id }: ConsoleDecision): number => id;
  return {
    ...head,
    points: merged(before.points, points, points_gone, ofStep).sort((a, b) => a.step - b.step),
    decisions: merged(before.decisions, decisions, decisions_gone, ofId).sort((a, b) => b.id - a.id),
  };
}

function merged<Row>(
  rows: readonly Row[],
  news: readonly Row[],
  gone: readonly number[],
  keyOf: (row: Row) => number,
): Row[] {
  const next = new Map(rows.map((row) => [keyOf(row), row]));
  for (const row of news) next.set(keyOf(row), row);
  for (const key of gone) next.delete(key);
  return [...next.values()];
}

/** Follows the records of a planner. @param model its name, or its group; undefined = the one that ticked last */
export function usePlanner(model: string | undefined, onLink: (state: LinkState) => void): Planner | undefined {
  const [planner, setPlanner] = useState<Planner>();
  useEffect(() => {
    setPlanner(undefined); // of another model
    const query = model === undefined ? '' : `&model=${encodeURIComponent(model)}`;
    return follow(`console/api?view=planner${query}`, {
      state: onLink,
      event: ({ name, data }) => {
        const told: unknown = JSON.parse(data);
        if (name === 'planner') setPlanner(told as ConsolePlanner);
        if (name === 'planned') setPlanner((before) => before && changed(before, told as ConsolePlanned));
      },
    });
  }, [model]);
  return planner;
}
