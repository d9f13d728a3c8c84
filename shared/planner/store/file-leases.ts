import { randomUUID } from 'node:crypto';
import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import type { Clock } from '../../clock/index.ts';
import type { FileLock } from '../../concurrency/index.ts';
import { type Lease, type PlannerStore, PlannerStoreError, takenLease } from './types.ts';

interface FileLeasesDeps {
  readonly lock: FileLock;
  readonly clock: Pick<Clock, 'wallMs'>;
  failure(what: string, cause?: unknown): PlannerStoreError;
}

const MODE = 0o600;

/** Leases of all models in one file, which is replaced as a whole. They come and go too often for the log. */
export class FileLeases {
  readonly #path: string;
  readonly #deps: FileLeasesDeps;

  constructor(path: string, deps: FileLeasesDeps) {
    this.#path = path;
    this.#deps = deps;
  }

  take: PlannerStore['takeLease'] = (group, holder, ms, signal) =>
    this.#change(group, signal, (now, nowMs) => takenLease(now, holder, ms, nowMs));

  renew: PlannerStore['renewLease'] = (group, { holder, fence }, { ms, memory }, signal) =>
    this.#change(group, signal, (now, nowMs) =>
      now?.fence === fence ? { holder, fence, untilMs: nowMs + ms, memory } : undefined,
    );

  release: PlannerStore['releaseLease'] = async (group, { fence }, signal) => {
    await this.#change(group, signal, (now) => (now?.fence === fence ? { ...now, untilMs: 0 } : undefined));
  };

  async #change(
    group: string,
    signal: AbortSignal,
    change: (now: Lease | undefined, nowMs: number) => Lease | undefined,
  ): Promise<Lease | undefined> {
    signal.throwIfAborted();
    const { lock, clock, failure } = this.#deps;
    return lock.hold(signal, async (stillHeld) => {
      const leases = await this.#read();
      const next = change(leases[group], clock.wallMs());
      if (next === undefined) return undefined;
      const temporary = `${this.#path}.${randomUUID()}.tmp`;
      try {
        await writeFile(temporary, JSON.stringify({ ...leases, [group]: next }), { mode: MODE, flag: 'wx' });
        await stillHeld();
        await rename(temporary, this.#path);
      } catch (thrown) {
        await rm(temporary, { force: true });
        if (thrown instanceof PlannerStoreError) throw thrown;
        throw failure('has no leases beside it, because they cannot be written', thrown);
      }
      return next;
    });
  }

  /** A file that a crash has left unreadable counts as none: a new fence is higher than every old one. */
  async #read(): Promise<Readonly<Record<string, Lease>>> {
    try {
      return JSON.parse(await readFile(this.#path, 'utf8')) as Readonly<Record<string, Lease>>;
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT' || thrown instanceof SyntaxError) return {};
      throw this.#deps.failure('has leases beside it that cannot be read', thrown);
    }
  }
}
