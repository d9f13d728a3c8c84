import type { KvEvent } from '../engines/index.ts';
import type { SimulatedRequest } from './simulated-request.ts';

/** The routers of a fleet, as the fleet sees them. */
export interface RouterBench {
  /** Routers that share the work. */
  readonly count: number;
  /** Whether `kvEvents` is listened to. */
  readonly wantsKvEvents: boolean;
  /** A request arrived at its router, which dispatches it now or later. */
  submit(request: SimulatedRequest): void;
  firstToken(request: SimulatedRequest): void;
  finished(request: SimulatedRequest): void;
  kvEvents(rank: number, events: readonly KvEvent[]): void;
}
