import { useEffect, useState } from 'preact/hooks';
import type { ConsoleChange, ConsoleFleet, ConsoleHour, ConsoleModel } from '../../shared/console/wire/fleet.ts';
import type { ConsoleWorker } from '../../shared/console/wire/worker.ts';
import { follow, type LinkState } from '../server.ts';

/** Time for which a worker that has gone stays in sight, in milliseconds. */
const GONE_MS = 60_000;
/** Workers that have gone and stay in sight, the latest ones. */
const GONE_MAX = 200;

/** A worker that has left since the page was opened. */
export interface GoneWorker {
  readonly worker: ConsoleWorker;
  /** Unix time. */
  readonly atMs: number;
}

/** The fleet as the page knows it. */
export interface Fleet extends Omit<ConsoleFleet, 'models' | 'workers'> {
  readonly models: ReadonlyMap<string, ConsoleModel>;
  /** By id, in the order of their models, pools and ids. */
  readonly workers: ReadonlyMap<string, ConsoleWorker>;
  /** By id, the latest last. */
  readonly gone: ReadonlyMap<string, GoneWorker>;
}

function whole(fleet: ConsoleFleet): Fleet {
  return {
    ...fleet,
    models: new Map(fleet.models.map((model) => [model.name, model])),
    workers: inOrder(fleet.workers),
    gone: new Map(),
  };
}

function inOrder(workers: Iterable<ConsoleWorker>): ReadonlyMap<string, ConsoleWorker> {
  const placed = [...workers].map((worker) => [`${worker.model} ${worker.pool} ${worker.id}`, worker] as const);
  placed.sort(([a], [b]) => (a < b ? -1 : 1));
  return new Map(placed.map(([, worker]) => [worker.id, worker]));
}

function changed(fleet: Fleet, change: ConsoleChange): Fleet {
  const { at_ms, stage, totals } = change;
  return {
    ...fleet,
    at_ms,
    totals,
    cold_starts: change.cold_starts ?? fleet.cold_starts,
    starting: change.starting ?? fleet.starting,
    cost: change.cost ?? fleet.cost,
    frontends: change.frontends ?? fleet.frontends,
    frontend: { ...fleet.frontend, stage },
    models: merged(fleet.models, change.models, ({ name }) => name, change.models_gone),
    workers: workersOf(fleet, change),
    gone: goneOf(fleet, change),
  };
}

function workersOf(fleet: Fleet, change: ConsoleChange): Fleet['workers'] {
  const news = [...change.workers, ...loaded(fleet, change)];
  const workers = merged(fleet.workers, news, ({ id }) => id, change.workers_gone);
  // A row that changes keeps its place
  return change.workers.some(({ id }) => !fleet.workers.has(id)) ? inOrder(workers.values()) : workers;
}

/** Returns the rows of workers whose load alone has changed. */
function loaded({ workers }: Fleet, { loads }: ConsoleChange): readonly ConsoleWorker[] {
  return loads.flatMap(([id, requests, kv_blocks, prefill_tokens]) => {
    const worker = workers.get(id);
    return worker === undefined ? [] : [{ ...worker, requests, kv_blocks, prefill_tokens }];
  });
}

function goneOf({ gone, workers }: Fleet, { at_ms, workers_gone: ids, workers: back }: ConsoleChange): Fleet['gone'] {
  const [oldest] = gone.values();
  const isOver = oldest !== undefined && at_ms - oldest.atMs > GONE_MS;
  if (ids.length === 0 && !isOver && !back.some(({ id }) => gone.has(id))) return gone;
  const returned = new Set(back.map(({ id }) => id));
  const news = ids.flatMap((id) => {
    const worker = workers.get(id);
    return worker === undefined ? [] : [[id, { worker, atMs: at_ms }] as const];
  });
  const all = [...gone, ...news].filter(([id, { atMs }]) => !returned.has(id) && at_ms - atMs <= GONE_MS);
  return new Map(all.slice(-GONE_MAX));
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
