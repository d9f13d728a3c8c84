import type { Clock, Timer } from '../../clock/index.ts';
import type { UnknownRecord } from '../../records/index.ts';
import { type LoadBoard, unpackLoads } from '../loads.ts';
import { objectNameOf, type PodIdentity } from './identity.ts';
import type { KubeClient } from './kube-client.ts';
import { annotationOf, nameOf } from './objects.ts';
import { LOADS_ANNOTATION, loadsLease, loadsName, objectOfLoads } from './own-object.ts';
import { applyAt, deleteAt } from './registration.ts';

export interface LoadsWriterOptions {
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly identity: PodIdentity;
  /** Path of the list of all leases. */
  readonly path: string;
  /** Least time between two writes of mere amounts, in milliseconds. */
  readonly periodMs: number;
}

/**
 * Writes the loads of a process into a lease of its own, which is small: a write to the object of its records would
 * send its cards to every reader again.
 */
export class LoadsWriter {
  readonly #options: LoadsWriterOptions;
  readonly #name: string;
  #written: Uint8Array = new Uint8Array();
  #writtenMs = Number.NEGATIVE_INFINITY;
  /** Workers with loads, and which of them drain, as they were written. */
  #states = '';

  constructor(options: LoadsWriterOptions) {
    this.#options = options;
    this.#name = loadsName(objectNameOf(options.identity));
  }

  /** Whether a worker came, went, or began or ended to drain since the last write. That does not wait. */
  isUrgent(packed: Uint8Array): boolean {
    return statesOf(packed) !== this.#states;
  }

  /** Writes packed loads, if they have changed and are due. */
  async write(packed: Uint8Array, signal: AbortSignal): Promise<void> {
    const { client, clock, identity, path, periodMs } = this.#options;
    if (packed === this.#written || packed.length + this.#written.length === 0) return;
    if (!this.isUrgent(packed) && clock.nowMs() - this.#writtenMs < periodMs) return;
    const at = `${path}/${this.#name}`;
    if (packed.length === 0) await deleteAt(client, at, undefined, signal);
    else await applyAt(client, at, loadsLease(this.#name, identity, packed), signal);
    [this.#written, this.#states, this.#writtenMs] = [packed, statesOf(packed), clock.nowMs()];
  }

  /** Removes the lease. */
  async withdraw(signal: AbortSignal): Promise<void> {
    const { client, path } = this.#options;
    if (this.#written.length > 0) await deleteAt(client, `${path}/${this.#name}`, undefined, signal);
  }
}

function statesOf(packed: Uint8Array): string {
  const workers = packed.length === 0 ? [] : (unpackLoads(packed) ?? []);
  return workers.map(([id, { isDraining }]) => `${id}${isDraining ? ' draining' : ''}`).join();
}

/** Time for which changes are gathered, because each showing costs as much as there are processes. */
const GAP_MS = 100;

/** Shows the loads of all visible processes on a board. */
export class LoadsReader {
  readonly #clock: Clock;
  readonly #board: LoadBoard;
  readonly #visible: () => ReadonlySet<string>;
  readonly #packed = new Map<string, Uint8Array>(); // by the name of the process's object
  #due: Timer | undefined;

  /** @param visible returns the names of the visible processes' objects */
  constructor(clock: Clock, board: LoadBoard, visible: () => ReadonlySet<string>) {
    this.#clock = clock;
    this.#board = board;
    this.#visible = visible;
  }

  show(leases: readonly UnknownRecord[]): void {
    this.#packed.clear();
    for (const lease of leases) this.#note(lease, false);
    this.showSoon();
  }

  change(lease: UnknownRecord, isGone: boolean): void {
    this.#note(lease, isGone);
    this.showSoon();
  }

  /** Shows the loads once more, as when a process became visible. */
  showSoon(): void {
    this.#due ??= this.#clock.after(GAP_MS, () => {
      this.#due = undefined;
      const visible = this.#visible();
      this.#board.show(new Map([...this.#packed].filter(([name]) => visible.has(name))));
    });
  }

  close(): void {
    this.#due?.cancel();
  }

  #note(lease: UnknownRecord, isGone: boolean): void {
    const name = objectOfLoads(nameOf(lease));
    const loads = annotationOf(lease, LOADS_ANNOTATION);
    if (name === undefined) return;
    if (isGone || loads === undefined) this.#packed.delete(name);
    else this.#packed.set(name, Buffer.from(loads, 'base64'));
  }
}
