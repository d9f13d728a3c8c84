import type { ExplanationRecord } from '../scheduler/explanation-record.ts';
import type { ChooseAnswer, UnansweredReason } from './choose-call.ts';
import { type ResidentAddress, ResidentChannel, type ResidentChannelOptions } from './resident-channel.ts';
import type { ChooseQuery } from './types.ts';

export interface ResidentClientOptions extends ResidentChannelOptions {
  /** Deadline of the first message, for all routers that are asked together. @default 10 */
  readonly chooseTimeoutMs?: number;
}

/** What the resident routers say of a request. */
export type ResidentAnswer =
  | { readonly kind: 'decided'; readonly chosen: DecidedBy['chosen']; readonly channel: ResidentChannel }
  | Extract<ChooseAnswer, { readonly kind: 'rejected' }>
  /** `no_resident`: none is registered. */
  | { readonly kind: 'unanswered'; readonly reason: UnansweredReason | 'no_resident' };

type DecidedBy = Extract<ChooseAnswer, { readonly kind: 'decided' }>;

const CHOOSE_TIMEOUT_MS = 10;

/** Asks the resident routers of a namespace: the one that answered last first, the others while there is time. */
export class ResidentClient {
  readonly #options: ResidentClientOptions;
  #channels: readonly ResidentChannel[] = [];
  #last: ResidentChannel | undefined;

  constructor(options: ResidentClientOptions) {
    this.#options = options;
  }

  /** The routers as they are now; channels to new ones are opened. */
  setResidents(addresses: readonly ResidentAddress[]): void {
    const known = new Map(this.#channels.map((channel) => [keyOf(channel.address), channel]));
    this.#channels = addresses.map(
      (address) => known.get(keyOf(address)) ?? new ResidentChannel(address, this.#options),
    );
    for (const channel of known.values()) if (!this.#channels.includes(channel)) channel.close();
    if (this.#last !== undefined && !this.#channels.includes(this.#last)) this.#last = undefined;
    void this.open(); // never rejects
  }

  /** Opens the channels that are closed. Never rejects, and ends within the connect deadline. */
  async open(): Promise<void> {
    await Promise.all(this.#channels.map((channel) => channel.open()));
  }

  /** Rejects with the signal's reason only. */
  async choose(query: ChooseQuery, signal: AbortSignal): Promise<ResidentAnswer> {
    signal.throwIfAborted();
    const { clock, chooseTimeoutMs = CHOOSE_TIMEOUT_MS } = this.#options;
    const deadlineMs = clock.nowMs() + chooseTimeoutMs;
    let reason: UnansweredReason | 'no_resident' = this.#channels.length === 0 ? 'no_resident' : 'lost';
    for (const channel of this.#inOrder()) {
      const leftMs = deadlineMs - clock.nowMs();
      if (leftMs <= 0) break;
      const answer = await channel.choose(query, leftMs, signal);
      if (answer.kind === 'unanswered') {
        reason = answer.reason;
        continue;
      }
      this.#last = channel;
      return answer.kind === 'decided' ? { ...answer, channel } : answer;
    }
    void this.open(); // beside the request, which goes its way without a resident
    return { kind: 'unanswered', reason };
  }

  /** The first explanation that a router gives; undefined when none can. Never rejects, and ends in time. */
  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    await this.open();
    for (const channel of this.#inOrder()) {
      const explanation = await channel.explain(about);
      if (explanation !== undefined) return explanation;
    }
    return undefined;
  }

  /** Leaves every router. */
  close(): void {
    for (const channel of this.#channels) channel.close();
    this.#channels = [];
  }

  #inOrder(): readonly ResidentChannel[] {
    const open = this.#channels.filter((channel) => channel.isOpen);
    const last = this.#last;
    return last?.isOpen === true ? [last, ...open.filter((channel) => channel !== last)] : open;
  }
}

/** A router that was restarted is another instance; one that moved has another address. */
function keyOf(address: ResidentAddress): string {
  return `${address.instanceId} ${JSON.stringify('grpc' in address ? address.grpc : address.choose)}`;
}
