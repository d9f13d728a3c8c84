import type { DiscoveryBaseOptions } from '../options.ts';

export interface DynamoDbDiscoveryOptions extends DiscoveryBaseOptions {
  /** Time between two readings, and between two writings of the view by the process that gathers it. @default 1000 */
  readonly pollMs?: number;
  /** Allowance for clocks that differ, when a lease is seen for the first time. @default 1000 */
  readonly skewMs?: number;
  /**
   * Longest time for which `put`, `remove`, `list` and `watch` try to reach the table. @default 10_000, for a process
   * that does not last 2000
   */
  readonly operationTimeoutMs?: number;
  /** Longest wait for one answer of the table. @default 2000, for a process that does not last 1000 */
  readonly requestTimeoutMs?: number;
  /** Longest wait of `refresh`. @default 1000 */
  readonly refreshTimeoutMs?: number;
  /**
   * Age up to which a view is good enough for a request, in a process that does not last. `refresh` then waits 100 ms
   * for a newer one, and continues to read it in the background. With 0, it waits as long as for an older view.
   * @default 60_000
   */
  readonly staleMsMax?: number;
  /** Time for which a lease must stay dead before the gatherer deletes its records. @default 60_000 */
  readonly sweepAfterMs?: number;
  /**
   * Whether the process lives on between its requests. If so, it follows the fleet by itself, and gathers the view if
   * no other process does. A process that freezes between requests reads only on `refresh`, and writes nothing to the
   * view. @default true
   */
  readonly isLasting?: boolean;
  /** See `StoreOptions`. @default false */
  readonly showsAskedModels?: boolean;
}
