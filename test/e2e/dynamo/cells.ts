import type { MeetingPlane, MeetingStore } from '../../support/dynamo/index.ts';

export const PRODUCTS = ['Stator', 'Dynamo'] as const;
export type Product = (typeof PRODUCTS)[number];

export const ROUTER_MODES = ['round-robin', 'kv'] as const;
type RouterMode = (typeof ROUTER_MODES)[number];

/** The frontends of one group of cells: every product and routing mode before the same workers. */
export interface FrontendKind {
  readonly product: Product;
  readonly mode: RouterMode;
}

/** Cells of the matrix that share their workers, because a start of workers costs more than a check. */
export interface CellGroup {
  readonly workers: Product;
  readonly store: MeetingStore;
  readonly plane: MeetingPlane;
}

export const FRONTENDS: readonly FrontendKind[] = PRODUCTS.flatMap((product) =>
  ROUTER_MODES.map((mode) => ({ product, mode })),
);

export const GROUPS: readonly CellGroup[] = PRODUCTS.flatMap((workers) =>
  (['file', 'etcd'] as const).flatMap((store) =>
    (['tcp', 'nats'] as const).map((plane) => ({ workers, store, plane })),
  ),
);

export function nameOfFrontend({ product, mode }: FrontendKind): string {
  return `${product}'s frontend, ${mode}`;
}

export function nameOfGroup({ workers, store, plane }: CellGroup): string {
  return `${workers}'s workers by ${store} and ${plane}`;
}

/** Returns why a cell is not played: what one of the products lacks. Returns undefined if it is played. */
export function reasonNotPlayed(group: CellGroup, frontend: FrontendKind): string | undefined {
  if (frontend.product === group.workers || group.workers === 'Dynamo') return undefined;
  return "Stator's workers do not speak the request plane of Dynamo yet";
}
