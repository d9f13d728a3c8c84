import type { Clock } from '../../../shared/clock/index.ts';
import {
  type LeaseRow,
  type RouterState,
  RouterStateError,
  type SnapshotPointer,
  type StateName,
} from '../../../shared/router-state/router-state.ts';

/** State that the participants of one process share, as processes share a table. Its clock is the table's time. */
export class MemoryRouterStateHub {
  readonly clock: Clock;
  readonly leases = new Map<string, LeaseRow>();
  readonly pointers = new Map<string, SnapshotPointer>();

  constructor(clock: Clock) {
    this.clock = clock;
  }

  /** Opens a handle for one participant. */
  open(): RouterState {
    return new MemoryRouterState(this);
  }
}

/** Router state inside one process. */
class MemoryRouterState implements RouterState {
  readonly #hub: MemoryRouterStateHub;
  #isClosed = false;

  constructor(hub: MemoryRouterStateHub) {
    this.#hub = hub;
  }

  nowMs(): number {
    return this.#hub.clock.wallMs();
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

  #writeLease(lease: StateName, row: LeaseRow): LeaseRow {
    this.#hub.leases.set(nameKey(lease), row);
    return row;
  }

  #assertOpen(signal: AbortSignal): void {
    signal.throwIfAborted();
    if (this.#isClosed) throw new RouterStateError('closed', 'this handle of the router state was closed');
  }
}

function nameKey({ namespace, name }: StateName): string {
  return [namespace, name].map(encodeURIComponent).join('/');
}
