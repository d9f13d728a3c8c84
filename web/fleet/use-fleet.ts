import { useEffect, useState } from 'preact/hooks';
import type {
  ConsoleChange,
  ConsoleFleet,
  ConsoleHour,
  ConsoleModel,
  ConsoleWorker,
} from '../../shared/console/wire.ts';
import { follow, type LinkState } from '../server.ts';

/** The fleet as the page knows it. */
export interface Fleet extends Omit<ConsoleFleet, 'models' | 'workers'> {
  readonly models: ReadonlyMap<string, ConsoleModel>;
  readonly workers: ReadonlyMap<string, ConsoleWorker>;
}

function whole(fleet: ConsoleFleet): Fleet {
  return {
    ...fleet,
    models: new Map(fleet.models.map((model) => [model.name, model])),
    workers: new Map(fleet.workers.map((worker) => [worker.id, worker])),
  };
}

function changed(fleet: Fleet, change: ConsoleChange): Fleet {
  const { at_ms, stage, totals } = change;
  return {
    ...fleet,
    at_ms,
    totals,
    frontend: { ...fleet.frontend, stage },
    models: merged(fleet.models, change.models, ({ name }) => name, change.models_gone),
    workers: merged(fleet.workers, change.workers, ({ id }) => id, change.workers_gone),
  };
}

/** Returns the rows with the new ones; the same map if nothing has changed. */
function merged<Row>(
  rows: ReadonlyMap<string, Row>,
  news: readonly Row[],
  keyOf: (row: Row) => string,
  gone: readonly string[],
): ReadonlyMap<string, Row> {
  if (news.length === 0 && gone.length === 0) return rows;
  const next = new Map(rows);
  for (const row of news) next.set(keyOf(row), row);
  for (const key of gone) next.delete(key);
  return next;
}

/** Follows the fleet. @param model whose last hour comes; undefined = of all models */
export function useFleet(model: string | undefined, onLink: (state: LinkState) => void): Fleet | undefined {
  const [fleet, setFleet] = useState<Fleet>();
  useEffect(() => {
    const query = model === undefined ? '' : `&model=${encodeURIComponent(model)}`;
    return follow(`console/api?view=fleet${query}`, {
      state: onLink,
      event: ({ name, data }) => {
        const told: unknown = JSON.parse(data);
        if (name === 'fleet') setFleet(whole(told as ConsoleFleet));
        if (name === 'change') setFleet((before) => before && changed(before, told as ConsoleChange));
        if (name === 'hour') setFleet((before) => before && { ...before, hour: told as ConsoleHour });
      },
    });
  }, [model]);
  return fleet;
}
