import type { Clock } from '../../clock/index.ts';
import type { Targets } from '../types.ts';
import type { Connector, Handed, Observed } from './types.ts';

/** Where targets lie for an environment that scales by itself: texts by name, as Dynamo has them in etcd. */
export interface VirtualKeys {
  /** What is there of `num_prefill_workers`, `num_decode_workers`, `decision_id` and `scaled_decision_id`. */
  read(signal: AbortSignal): Promise<Readonly<Record<string, string>>>;
  /** Writes all of them; whoever reads the new `decision_id` reads the new numbers. */
  write(values: Readonly<Record<string, string>>, signal: AbortSignal): Promise<void>;
}

export interface VirtualConnectorOptions {
  readonly keys: VirtualKeys;
  readonly clock: Clock;
  /** An environment that has not carried out a decision for so long gets the next one all the same. @default 1,800,000 */
  readonly waitMsMax?: number;
}

export interface VirtualState {
  /** -1 = nothing was decided yet. */
  readonly prefill: number;
  readonly decode: number;
  readonly decisionId: number;
  readonly scaledDecisionId: number;
}

const WAIT_MS_MAX = 1_800_000;

/**
 * Leaves targets for an external system, with Dynamo's keys and rules: all three values with each change, a number that grows with
 * it, and none before the last one is acknowledged by `scaled_decision_id`, or has been waited for long enough.
 */
export class VirtualConnector implements Connector {
  readonly name = 'virtual';
  readonly #options: VirtualConnectorOptions;
  #skippedAtMs: number | undefined;

  constructor(options: VirtualConnectorOptions) {
    this.#options = options;
  }

  async observe(signal: AbortSignal): Promise<Observed> {
    signal.throwIfAborted();
    return {};
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

  async scale(targets: Targets, signal: AbortSignal): Promise<Handed> {
    const { clock, waitMsMax = WAIT_MS_MAX, keys } = this.#options;
    const now = await this.state(signal);
    const wanted = { prefill: targets.prefill ?? now.prefill, decode: targets.decode ?? now.decode };
    if (wanted.prefill === now.prefill && wanted.decode === now.decode) return 'accepted';
    if (now.scaledDecisionId < now.decisionId) {
      this.#skippedAtMs ??= clock.nowMs();
      if (clock.nowMs() - this.#skippedAtMs < waitMsMax) return 'waiting';
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

  async isSettled(signal: AbortSignal): Promise<boolean> {
    const { scaledDecisionId, decisionId } = await this.state(signal);
    return scaledDecisionId >= decisionId;
  }

  async close(): Promise<void> {}
}

/** -1 where there is no whole number: nothing was said. */
function wholeOf(text: string | undefined): number {
  const value = Number(text?.trim() || 'none');
  return Number.isSafeInteger(value) && value >= -1 ? value : -1;
}
