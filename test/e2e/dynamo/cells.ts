import type { MeetingPlane, MeetingStore } from '../../support/dynamo/index.ts';

const PRODUCTS = ['Stator', 'Dynamo'] as const;
type Product = (typeof PRODUCTS)[number];

const ROUTER_MODES = ['round-robin', 'kv'] as const;
type RouterMode = (typeof ROUTER_MODES)[number];

const WORKERS = ['Dynamo', 'Stator with --wire dynamo', 'Stator'] as const;
/** Product of the workers, and how those of Stator speak. */
export type WorkerKind = (typeof WORKERS)[number];

/** The frontends of one group of cells: every product and routing mode before the same workers. */
export interface FrontendKind {
  readonly product: Product;
  readonly mode: RouterMode;
}

/** Cells of the matrix that share their workers, because a start of workers costs more than a check. */
export interface CellGroup {
  readonly workers: WorkerKind;
  readonly store: MeetingStore;
  readonly plane: MeetingPlane;
}

export const FRONTENDS: readonly FrontendKind[] = PRODUCTS.flatMap((product) =>
  ROUTER_MODES.map((mode) => ({ product, mode })),
);

export const GROUPS: readonly CellGroup[] = WORKERS.flatMap((workers) =>
  (['file', 'etcd'] as const).flatMap((store) =>
    (['tcp', 'nats'] as const).map((plane) => ({ workers, store, plane })),
  ),
);

export function nameOfFrontend({ product, mode }: FrontendKind): string {
  return `${product}'s frontend, ${mode}`;
}

export function nameOfGroup({ workers, store, plane }: CellGroup): string {
  return `workers of ${workers}, by ${store} and ${plane}`;
}

export const NEEDS_WIRE = "Stator's workers serve frontends of Dynamo only with --wire dynamo";
export const WIRE_NEEDS_TCP = '--wire dynamo takes requests only by TCP';

/** Returns why a cell is not played. Returns undefined if it is played. */
export function reasonNotPlayed({ workers, plane }: CellGroup, { product }: FrontendKind): string | undefined {
  if (workers === 'Stator' && product === 'Dynamo') return NEEDS_WIRE;
  if (workers === 'Stator with --wire dynamo' && plane === 'nats') return WIRE_NEEDS_TCP;
  return undefined;
}

/** Returns the frontends of a group whose cells are played. */
export function playedOf(group: CellGroup): readonly FrontendKind[] {
  return FRONTENDS.filter((frontend) => reasonNotPlayed(group, frontend) === undefined);
}
