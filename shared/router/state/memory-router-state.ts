import type { Clock } from '../../clock/index.ts';
import type { RankWeight } from '../scheduler/types.ts';
import { addLoad, NO_LOAD, subtractLoad } from './load-amounts.ts';
import {
  type FleetItemRow,
  type LeaseRow,
  type LoadReport,
  type LoadRow,
  type PoolAddress,
  type RankId,
  type ReservationChange,
  type RouterState,
  RouterStateError,
  type SnapshotPointer,
  type StateName,
} from './types.ts';

interface Counter {
  reserved: RankWeight;
  report: LoadReport;
  reportedAtMs: number;
  /** Last change of each decider. */
  readonly changes: Map<string, number>;
}

interface FleetItem extends FleetItemRow {
  readonly fence: number;
}

/** What the states of one process share, as processes share a table. Its clock is the table's time. */
export class MemoryRouterStateHub {
  readonly clock: Clock;
  readonly counters = new Map<string, Map<string, Counter>>();
  readonly fleetItems = new Map<string, FleetItem>();
  readonly fleetReads = new Map<string, number>();
  readonly leases = new Map<string, LeaseRow>();
  readonly pointers = new Map<string, SnapshotPointer>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** A handle of one participant. */
  open(): RouterState {
    return new MemoryRouterState(this);
  }
}

/** Router state inside one process: for a laptop, one virtual machine, tests and the simulator. */
class MemoryRouterState implements RouterState {
  readonly name = 'memory';
  readonly #hub: MemoryRouterStateHub;
  #isClosed = false;

  constructor(hub: MemoryRouterStateHub) {
    this.#hub = hub;
  }

  nowMs(): number {
    return this.#hub.clock.wallMs();
  }

  async reserve(pool: PoolAddress, change: ReservationChange, signal: AbortSignal): Promise<boolean> {
    return this.#change(pool, change, addLoad, signal);
  }

  async release(pool: PoolAddress, change: ReservationChange, signal: AbortSignal): Promise<boolean> {
    return this.#change(pool, change, subtractLoad, signal);
  }

  async report(pool: PoolAddress, report: LoadReport, signal: AbortSignal): Promise<RankWeight> {
    this.#assertOpen(signal);
    const counters = this.#countersOf(pool);
    const counter = counters.get(rankKey(report.rank));
    if (counter === undefined) {
      counters.set(rankKey(report.rank), {
        reserved: NO_LOAD,
        report,
        reportedAtMs: this.nowMs(),
        changes: new Map(),
      });
      return NO_LOAD;
    }
    if (report.number > counter.report.number) {
      counter.report = report;
      counter.reportedAtMs = this.nowMs();
    }
    return counter.reserved;
  }

  async withdraw(pool: PoolAddress, rank: RankId, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    this.#countersOf(pool).delete(rankKey(rank));
  }

  async sweep(...args: Parameters<RouterState['sweep']>): Promise<boolean> {
    const [pool, { rank, reportNumber }, signal] = args;
    this.#assertOpen(signal);
    const counters = this.#countersOf(pool);
    const isSeen = counters.get(rankKey(rank))?.report.number === reportNumber;
    return isSeen && counters.delete(rankKey(rank));
  }

  async loads(pool: PoolAddress, signal: AbortSignal): Promise<readonly LoadRow[]> {
    this.#assertOpen(signal);
    return [...this.#countersOf(pool).values()].map(({ reserved, report, reportedAtMs }) => {
      const { rank, active, acked, kvUsedBlocks, number: reportNumber } = report;
      return { rank, active, reserved, acked, kvUsedBlocks, reportNumber, reportedAtMs };
    });
  }

  async writeFleetItem(...args: Parameters<RouterState['writeFleetItem']>): Promise<boolean> {
    const [{ pool, cell, copy }, body, fence, signal] = args;
    this.#assertOpen(signal);
    const key = `${poolKey(pool)}/${cell}/${copy}`;
    if ((this.#hub.fleetItems.get(key)?.fence ?? fence) > fence) return false;
    this.#hub.fleetItems.set(key, { body: body.slice(), fence, writtenAtMs: this.nowMs() });
    return true;
  }

  async readFleetItem(...args: Parameters<RouterState['readFleetItem']>): Promise<FleetItemRow | undefined> {
    const [{ pool, cell, copy }, signal] = args;
    this.#assertOpen(signal);
    return this.#hub.fleetItems.get(`${poolKey(pool)}/${cell}/${copy}`);
  }

  async countFleetReads(pool: PoolAddress, reads: number, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    this.#hub.fleetReads.set(poolKey(pool), (this.#hub.fleetReads.get(poolKey(pool)) ?? 0) + reads);
  }

  async fleetReads(pool: PoolAddress, signal: AbortSignal): Promise<number> {
    this.#assertOpen(signal);
    return this.#hub.fleetReads.get(poolKey(pool)) ?? 0;
  }

  async readLease(lease: StateName, signal: AbortSignal): Promise<LeaseRow | undefined> {
    this.#assertOpen(signal);
    return this.#hub.leases.get(nameKey(lease));
  }

  async takeLease(...args: Parameters<RouterState['takeLease']>): Promise<LeaseRow | undefined> {
    const [lease, { holder, ttlMs, seenFence }, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present?.fence !== seenFence) return undefined;
    return this.#writeLease(lease, { holder, ttlMs, fence: (seenFence ?? 0) + 1, expiresAtMs: this.nowMs() + ttlMs });
  }

  async renewLease(...args: Parameters<RouterState['renewLease']>): Promise<LeaseRow | undefined> {
    const [lease, holder, ttlMs, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present === undefined || present.holder !== holder) return undefined;
    return this.#writeLease(lease, { holder, ttlMs, fence: present.fence + 1, expiresAtMs: this.nowMs() + ttlMs });
  }

  async endLease(lease: StateName, holder: string, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    const present = this.#hub.leases.get(nameKey(lease));
    if (present === undefined || present.holder !== holder) return;
    this.#writeLease(lease, { ...present, holder: '', fence: present.fence + 1, expiresAtMs: 0 });
  }

  async readPointer(pointer: StateName, signal: AbortSignal): Promise<SnapshotPointer | undefined> {
    this.#assertOpen(signal);
    return this.#hub.pointers.get(nameKey(pointer));
  }

  async movePointer(...args: Parameters<RouterState['movePointer']>): Promise<boolean> {
    const [pointer, { to, fence, seen }, signal] = args;
    this.#assertOpen(signal);
    const present = this.#hub.pointers.get(nameKey(pointer));
    if (present?.version !== seen?.version || (present?.fence ?? fence) > fence) return false;
    const { createdAt, sequence, object } = to;
    const previous =
      present === undefined
        ? undefined
        : { createdAt: present.createdAt, sequence: present.sequence, object: present.object };
    const version = (present?.version ?? 0) + 1;
    this.#hub.pointers.set(nameKey(pointer), { createdAt, sequence, object, fence, version, previous });
    return true;
  }

  async dropPointer(pointer: StateName, signal: AbortSignal): Promise<void> {
    this.#assertOpen(signal);
    this.#hub.pointers.delete(nameKey(pointer));
  }

  close(): void {
    this.#isClosed = true;
  }

  #change(
    pool: PoolAddress,
    change: ReservationChange,
    combine: (left: RankWeight, right: RankWeight) => RankWeight,
    signal: AbortSignal,
  ): boolean {
    this.#assertOpen(signal);
    const counter = this.#countersOf(pool).get(rankKey(change.rank));
    if (counter === undefined) return false;
    if (change.number <= (counter.changes.get(change.deciderId) ?? 0)) return true; // sent again
    counter.changes.set(change.deciderId, change.number);
    counter.reserved = combine(counter.reserved, change.amounts);
    return true;
  }

  #writeLease(lease: StateName, row: LeaseRow): LeaseRow {
    this.#hub.leases.set(nameKey(lease), row);
    return row;
  }

  #countersOf(pool: PoolAddress): Map<string, Counter> {
    const key = poolKey(pool);
    const counters = this.#hub.counters.get(key) ?? new Map<string, Counter>();
    this.#hub.counters.set(key, counters);
    return counters;
  }

  #assertOpen(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#isClosed) throw new RouterStateError('closed', 'this handle of the router state was closed');
  }
}

function poolKey({ namespace, component, endpoint }: PoolAddress): string {
  return [namespace, component, endpoint].map(encodeURIComponent).join('/');
}

function rankKey({ workerId, dpRank }: RankId): string {
  return `${workerId}/${dpRank}`;
}

function nameKey({ namespace, name }: StateName): string {
  return [namespace, name].map(encodeURIComponent).join('/');
}
