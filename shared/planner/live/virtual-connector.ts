import { mkdir, readFile, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../clock/index.ts';
import { POOLS, type Targets } from '../types.ts';
import type { Applied, Connector, Observed, Plan, Step } from './connector.ts';

/** Place of targets for an environment that scales by itself: texts by name, as Dynamo has them in etcd. */
export interface VirtualKeys {
  /** Reads whichever of `num_prefill_workers`, `num_decode_workers`, `decision_id` and `scaled_decision_id` exist. */
  read(signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  /** Writes all of them. A process that reads the new `decision_id` also reads the new numbers. */
  write(values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
}

interface VirtualConnectorOptions {
  readonly keys: VirtualKeys;
  readonly clock: Clock;
  /**
   * Milliseconds after which an environment gets the next decision although it has not carried out the last one.
   * @default 1,800,000
   */
  readonly waitMsMax?: number;
}

interface VirtualState {
  /** -1 = no decision yet. */
  readonly prefill: number;
  readonly decode: number;
  readonly decisionId: number;
  readonly scaledDecisionId: number;
}

const WAIT_MS_MAX = 1_800_000;

/**
 * Leaves targets for an external system, with Dynamo's keys and rules. Each change writes all three values, under a
 * number that grows. It waits until `scaled_decision_id` acknowledges the last change, or until `waitMsMax` is over.
 */
export class VirtualConnector implements Connector {
  readonly name = 'virtual';
  readonly #options: VirtualConnectorOptions;
  #skippedAtMs: number | undefined;

  constructor(options: VirtualConnectorOptions) {
    this.#options = options;
  }

  get waitMsMax(): number {
    return this.#options.waitMsMax ?? WAIT_MS_MAX;
  }

  async observe(signal: AbortSignal): Promise<Observed> {
    signal.throwIfAborted();
    const { prefill, decode, decisionId, scaledDecisionId } = await this.state(signal);
    const targets = { ...(prefill < 0 ? {} : { prefill }), ...(decode < 0 ? {} : { decode }) };
    return { handed: { targets, isCarriedOut: scaledDecisionId >= decisionId } };
  }

  plan: Connector['plan'] = ({ targets }, { handed }, memory): Plan => {
    const isChanged = POOLS.some((pool) => targets[pool] !== undefined && targets[pool] !== handed?.targets[pool]);
    const steps: Step[] = isChanged ? [{ kind: 'targets', targets }] : [];
    return { steps, victims: [], isDone: !isChanged && handed?.isCarriedOut === true, memory };
  };

  async apply(steps: readonly Step[], signal: AbortSignal): Promise<Applied> {
    let applied: Applied = 'accepted';
    for (const step of steps) if (step.kind === 'targets') applied = await this.#hand(step.targets, signal);
    return applied;
  }

  async state(signal: AbortSignal): Promise<VirtualState> {
    const keys = await this.#options.keys.read(signal);
    return {
      prefill: wholeOf(keys.num_prefill_workers),
      decode: wholeOf(keys.num_decode_workers),
      decisionId: wholeOf(keys.decision_id),
      scaledDecisionId: wholeOf(keys.scaled_decision_id),
    };
  }

  async #hand(targets: Targets, signal: AbortSignal): Promise<Applied> {
    const { clock, keys } = this.#options;
    const now = await this.state(signal);
    const wanted = { prefill: targets.prefill ?? now.prefill, decode: targets.decode ?? now.decode };
    if (wanted.prefill === now.prefill && wanted.decode === now.decode) return 'accepted';
    if (now.scaledDecisionId < now.decisionId) {
      this.#skippedAtMs ??= clock.nowMs();
      if (clock.nowMs() - this.#skippedAtMs < this.waitMsMax) return 'waiting';
    }
    this.#skippedAtMs = undefined;
    const values = {
      num_prefill_workers: `${wanted.prefill}`,
      num_decode_workers: `${wanted.decode}`,
      decision_id: `${now.decisionId + 1}`,
    };
    await keys.write(values, signal);
    return 'accepted';
  }

  async close(): Promise<void> {}
}

/** Returns a whole number; -1 if there is none. */
function wholeOf(text: string | undefined): number {
  const value = Number(text?.trim() || 'none');
  return Number.isSafeInteger(value) && value >= -1 ? value : -1;
}

const NAMES = ['num_prefill_workers', 'num_decode_workers', 'decision_id', 'scaled_decision_id'] as const;

/**
 * Keys as files of a folder, named as in etcd: `v1/<namespace>/planner/<key>`. A script reads the numbers once it sees
 * another `decision_id`, which is written last. It acknowledges by writing `scaled_decision_id`.
 */
export class FolderKeys implements VirtualKeys {
  readonly folder: string;

  constructor(root: string, namespace: string) {
    this.folder = join(root, 'v1', encodeURIComponent(namespace), 'planner');
  }

  async read(signal: AbortSignal): Promise<Readonly<Record<string, string>>> {
    const values: Record<string, string> = {};
    for (const name of NAMES) {
      signal.throwIfAborted();
      const text = await readFile(join(this.folder, name), 'utf8').catch(absent);
      if (text !== undefined) values[name] = text.trim();
    }
    return values;
  }

  async write(values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void> {
    await mkdir(this.folder, { recursive: true });
    const ordered = Object.entries(values).toSorted(([one], [other]) => rankOf(one) - rankOf(other));
    for (const [name, value] of ordered) {
      signal.throwIfAborted();
      const path = join(this.folder, name);
      await writeFile(`${path}.tmp`, `${value}\n`);
      await rename(`${path}.tmp`, path);
    }
  }
}

function rankOf(name: string): number {
  return (NAMES as readonly string[]).indexOf(name);
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}
