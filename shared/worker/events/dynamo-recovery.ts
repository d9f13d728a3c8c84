import { workerError } from '../../errors/index.ts';
import type { IncomingCall } from '../../planes/index.ts';
import type { EngineOutput } from '../../protocol/index.ts';
import { isRecord } from '../../records/index.ts';
import type { RouterEventRecord } from '../../worker-events/index.ts';
import { toDynamoEvent } from './dynamo-events.ts';
import type { RecoveryCall } from './rank-journal.ts';

/** Most events of one answer, which travels as one message. A dump has an event for each run of blocks. */
const EVENTS_MAX = 1 << 18;

/**
 * A query of a router of Dynamo, as `RecoveryService` serves queries: it joins the parts of the answer to the one item
 * that the router expects.
 */
export class JoinedRecovery implements RecoveryCall {
  readonly #call: IncomingCall;
  readonly #events: unknown[] = [];
  #kind: string | undefined;
  #rest: unknown;

  constructor(call: IncomingCall) {
    this.#call = call;
  }

  get body(): unknown {
    return this.#call.body;
  }

  get stopped(): AbortSignal {
    return this.#call.stopped;
  }

  accept(): void {
    this.#call.accept();
  }

  fail(error: Parameters<IncomingCall['fail']>[0]): void {
    this.#call.fail(error);
  }

  output({ body }: EngineOutput): void {
    if (!isRecord(body)) return;
    const { publisher_id: _, ...variant } = body;
    const [kind, part] = Object.entries(variant)[0] ?? [];
    this.#kind = kind;
    if (!isRecord(part) || !Array.isArray(part.events)) {
      this.#rest = part;
      return;
    }
    const { events, ...rest } = part;
    this.#rest = rest;
    for (const event of events as readonly RouterEventRecord[]) this.#events.push(toDynamoEvent(event));
    if (this.#events.length <= EVENTS_MAX) return;
    this.#call.fail(workerError('PayloadTooLarge', `an answer of more than ${EVENTS_MAX} events`));
  }

  end(): void {
    const kind = this.#kind;
    if (kind !== undefined) {
      const isList = kind === 'TreeDump' || kind === 'Events';
      const part = isList && isRecord(this.#rest) ? { events: this.#events, ...this.#rest } : this.#rest;
      this.#call.output({ body: { [kind]: part } });
    }
    this.#call.end();
  }

  /** Parts are joined here, whether or not the router reads. */
  isBlocked(): boolean {
    return false;
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }
}
