import { readFileSync } from 'node:fs';
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import { DRAIN_REASONS, type InstanceState, type Told, WISHES } from './law/types.ts';

const ms = z.number().min(0);
const PHASE = z.discriminatedUnion('kind', [
  z.object({ kind: z.enum(['starting', 'warming']), sinceMs: ms }),
  z.object({ kind: z.enum(['warm', 'serving']) }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
  z.object({
    kind: z.literal('draining'),
    reason: z.enum(DRAIN_REASONS),
    sinceMs: ms,
    untilMs: ms,
  }),
  z.object({ kind: z.literal('drained'), reason: z.enum(DRAIN_REASONS) }),
]);

const UNOPENED = z.object({ sinceMs: ms, retryAtMs: ms });

const KEPT = z.object({
  boot: z.string(),
  instanceId: z.string(),
  state: z.object({
    phase: PHASE,
    isLaunched: z.boolean(),
    isEnded: z.boolean(),
    unopened: z.object({ launch: UNOPENED.optional(), terminate: UNOPENED.optional() }),
    isReported: z.boolean(),
    heartbeatAtMs: ms,
    told: z.object({
      spotAtMs: ms.optional(),
      rebalanceAtMs: ms.optional(),
      blockEndsAtMs: ms.optional(),
    }),
  }),
  told: z.array(z.enum(WISHES)),
});

interface Kept {
  readonly state: InstanceState;
  /** Wish that each worker has got. A worker that got the wish to drain twice would end at once. */
  readonly told: readonly Told[];
}

/** File for the next agent of the same boot. It is replaced as a whole. */
export class StateFile {
  readonly #path: string;
  readonly #instanceId: string;
  readonly #boot = bootId();
  #written = '';
  #writing: Promise<void> = Promise.resolve();

  constructor(folder: string, instanceId: string) {
    this.#path = join(folder, 'state.json');
    this.#instanceId = instanceId;
  }

  /** Returns what an agent of this boot has left; undefined if none has, or if the file cannot be read. */
  async read(): Promise<Kept | undefined> {
    try {
      const kept = KEPT.parse(JSON.parse(await readFile(this.#path, 'utf8')));
      if (kept.boot !== this.#boot || kept.instanceId !== this.#instanceId) return undefined;
      return { state: kept.state as InstanceState, told: kept.told }; // the schema says the same
    } catch {
      return undefined; // the first agent, or a file that a full disk has cut: the metadata say what is wanted
    }
  }

  /** Writes what has changed. Writes follow each other in order. */
  write(kept: Kept): Promise<void> {
    const text = JSON.stringify({ boot: this.#boot, instanceId: this.#instanceId, ...kept });
    if (text === this.#written) return this.#writing;
    this.#written = text;
    this.#writing = this.#writing
      .catch(() => {}) // its caller has been told
      .then(async () => {
        await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
        await writeFile(`${this.#path}.new`, text, { mode: 0o600, flush: true });
        await rename(`${this.#path}.new`, this.#path);
      });
    return this.#writing;
  }
}

/** Returns a name that each boot has for itself; on systems without one, every boot counts as the same. */
function bootId(): string {
  try {
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
  } catch {
    return 'unknown';
  }
}
