import type { FleetPool } from '../fleet-pool.ts';
import type { SimulatedRequest } from '../simulated-rank.ts';

/** Options that every way to scale has. */
export interface ScalingTargets {
  /** Most requests that wait while no worker serves. @default 256 */
  readonly heldMax?: number | undefined;
  /** Targets of requests. @default none */
  readonly ttftTargetMs?: number | undefined;
  readonly itlTargetMs?: number | undefined;
}

/** Functions of a fleet for scaling it. */
export interface ScaledFleet {
  readonly nowMs: number;
  readonly pools: readonly FleetPool[];
  /** Requests of the workload. */
  readonly size: number;
  /** Runs `callback` after a delay. Time stands still until a promise that it returns has settled. */
  after(delayMs: number, callback: () => void | Promise<void>): void;
}

/** The fleet at one tick. */
export interface ScalingPoint {
  readonly atMs: number;
  /** Requests that arrived since the point before. */
  readonly started: number;
  readonly ready: number;
  readonly starting: number;
  readonly draining: number;
  readonly held: number;
}

/** Way in which the workers of a fleet come and go. */
export interface FleetScaling {
  readonly points: readonly ScalingPoint[];
  readonly ups: number;
  readonly downs: number;
  /** Workers or instances that had notice to leave. */
  readonly interruptions: number;
  /** Starts that came to nothing. */
  readonly failures: number;
  /** Requests that had not ended when their worker was taken away. */
  readonly moved: number;
  arrived(): void;
  /** A request reaches a worker, for the first time or again. */
  began(index: number): void;
  refused(): void;
  answered(request: SimulatedRequest, outputTokens: number): void;
  /** Adds what was paid until now. */
  settle(): void;
}
