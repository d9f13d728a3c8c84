/** A workload of the table: a synthetic one, or the first requests of a public trace. */
export type TableWorkload = 'agents' | 'tenants' | 'retrieval' | 'chats' | 'conversation' | 'synthetic';

/** One row of the table that compares cost models. */
export interface RoutingRow {
  readonly workload: TableWorkload;
  /** Requests as a share of the fleet's capacity. */
  readonly load: number;
  readonly workers: number;
  readonly routers: number;
  /** Milliseconds until a router knows what another one decided. */
  readonly syncMs: number;
  /** Milliseconds until a router knows what a cache holds. */
  readonly lagMs: number;
  /** Speeds of the workers in turn. */
  readonly speeds: readonly number[];
}

const WORKLOADS: readonly TableWorkload[] = ['agents', 'tenants', 'retrieval', 'chats', 'conversation', 'synthetic'];
const LOADS = [0.2, 0.5, 0.8, 1, 1.2];
const WORKERS = [4, 8, 16, 64];
const ROUTERS = [
  [1, 1, 0],
  [1, 1, 50],
  [8, 20, 10],
  [50, 5, 0],
  [50, 250, 50],
] as const;
const TWO_SPEEDS = [1, 0.4];

const PLAIN = { load: 0.8, workers: 8, routers: 1, syncMs: 1, lagMs: 0, speeds: [1] } as const;

/**
 * Rows of the short table: every load, every number of workers, every number of routers and two speeds, each while the
 * rest stays as it is: load 0.8, 8 workers, one router.
 */
function shortRows(): readonly RoutingRow[] {
  return WORKLOADS.flatMap((workload) => [
    ...LOADS.map((load) => ({ ...PLAIN, workload, load })),
    ...WORKERS.filter((workers) => workers !== PLAIN.workers).map((workers) => ({ ...PLAIN, workload, workers })),
    ...ROUTERS.slice(1).map(([routers, syncMs, lagMs]) => ({ ...PLAIN, workload, routers, syncMs, lagMs })),
    { ...PLAIN, workload, speeds: TWO_SPEEDS },
  ]);
}

/** Every combination. */
function fullRows(): readonly RoutingRow[] {
  const rows: RoutingRow[] = [];
  for (const workload of WORKLOADS)
    for (const load of LOADS)
      for (const workers of WORKERS)
        for (const [routers, syncMs, lagMs] of ROUTERS)
          for (const speeds of [[1], TWO_SPEEDS])
            rows.push({ workload, load, workers, routers, syncMs, lagMs, speeds });
  return rows;
}

export const ROW_SETS = { short: shortRows, full: fullRows } as const;

/** Name of a row, for `--rows` and the file of results. */
export function nameOf({ workload, load, workers, routers, syncMs, lagMs, speeds }: RoutingRow): string {
  const sync = routers > 1 ? `-sync${syncMs}` : '';
  const lag = lagMs > 0 ? `-lag${lagMs}` : '';
  const speed = speeds.length > 1 ? '-two-speeds' : '';
  return `${workload}-load${load}-n${workers}-r${routers}${sync}${lag}${speed}`;
}
