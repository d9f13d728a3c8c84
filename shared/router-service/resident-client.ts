import { afterSocketsAreRead } from '../concurrency/index.ts';
import type { ServeError } from '../errors/index.ts';
import type { ExplanationRecord } from '../scheduler/index.ts';
import type { ChooseQuery, ChosenWorker } from './messages.ts';
import { PlaneLine, type PlaneLineOptions, type ResidentAddress, type ResidentLine } from './residents.ts';

/**
 * Reason why a resident router did not decide. `standby`: it leaves that to another one. `lost`: it could not be
 * reached, or went away. `silent`: its first message did not come in time.
 */
export type UnansweredReason = 'standby' | 'lost' | 'silent';

/** Outcome of one question to one resident router. */
export type ChooseAnswer =
  | { readonly kind: 'decided'; readonly chosen: ChosenWorker }
  /** The router decided that no worker takes the request. */
  | { readonly kind: 'rejected'; readonly error: ServeError }
  | { readonly kind: 'unanswered'; readonly reason: UnansweredReason };

export interface ResidentClientOptions extends PlaneLineOptions {
  /** Creates the line to a gRPC address. @default there are no such addresses */
  readonly grpcLine?: ((place: string) => ResidentLine) | undefined;
  /** Deadline of opening a channel. @default 100 */
  readonly connectTimeoutMs?: number;
  /** Deadline of the first message, shared by all routers that are asked. @default 10 */
  readonly chooseTimeoutMs?: number;
}

/** Answer of the resident routers to a request. */
export type ResidentAnswer =
  /** `line`: the connection on which the router hears about changes of the request. */
  | { readonly kind: 'decided'; readonly chosen: ChosenWorker; readonly line: Pick<ResidentLine, 'change'> }
  | Extract<ChooseAnswer, { readonly kind: 'rejected' }>
  /** `no_resident`: discovery has no resident router. */
  | { readonly kind: 'unanswered'; readonly reason: UnansweredReason | 'no_resident' };

const CHOOSE_TIMEOUT_MS = 10;

/** Asks the resident routers of a namespace: first the one that answered last, then the others while there is time. */
export class ResidentClient {
  readonly #options: ResidentClientOptions;
  #channels: readonly ResidentChannel[] = [];
  #last: ResidentChannel | undefined;

  constructor(options: ResidentClientOptions) {
    this.#options = options;
  }

  /** Sets the present routers. Opens channels to new ones. */
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

  /** Asks for a worker. Rejects only with the signal's reason. */
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
      return answer.kind === 'decided' ? { ...answer, line: channel.line } : answer;
    }
    void this.open(); // runs beside the request, which continues without a resident
    return { kind: 'unanswered', reason };
  }

  /** Returns the first explanation of a router; undefined if no router has one. Never rejects, and ends in time. */
  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    await this.open();
    for (const channel of this.#inOrder()) {
      const explanation = await channel.line.explain(about);
      if (explanation !== undefined) return explanation;
    }
    return undefined;
  }

  /** Closes the channels to all routers. */
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

/** Returns the key of a router. A restarted router is another instance; a moved one has another address. */
function keyOf(address: ResidentAddress): string {
  return `${address.instanceId} ${JSON.stringify('grpc' in address ? address.grpc : address.choose)}`;
}

const CONNECT_TIMEOUT_MS = 100;
/** Time for which a late answer is awaited, to give its place back. After that the resident frees it by itself. */
const LATE_MS_MAX = 2000;
/** Least interval between two attempts to open a closed channel. Attempts happen only while requests ask. */
const RETRY_MS = 250;

/**
 * The way to one resident router. Requests use it only while it is open, so that none of them waits for a connection;
 * opening happens beside them.
 *
 * | State | probe answered | probe fails | router lost, or silent | router refuses |
 * |---|---|---|---|---|
 * | closed | -> open | -> closed, tried again 250 ms later | - | - |
 * | open | - | - | -> closed | - |
 */
class ResidentChannel {
  readonly address: ResidentAddress;
  readonly #options: ResidentClientOptions;
  readonly line: ResidentLine;
  #isOpen = false;
  #probe: Promise<void> | undefined;
  #probedMs = Number.NEGATIVE_INFINITY;

  constructor(address: ResidentAddress, options: ResidentClientOptions) {
    this.address = address;
    this.#options = options;
    this.line = lineTo(address, options);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Probes the router, unless its state is known or was tried just now. Never rejects, and ends in time. */
  open(): Promise<void> {
    const nowMs = this.#options.clock.nowMs();
    if (this.#isOpen) return Promise.resolve();
    if (this.#probe === undefined && nowMs - this.#probedMs < RETRY_MS) return Promise.resolve();
    this.#probedMs = nowMs;
    this.#probe ??= this.line.probe(this.#options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS).then((isThere) => {
      this.#probe = undefined;
      this.#isOpen = isThere;
    });
    return this.#probe;
  }

  /**
   * Asks the router. Rejects with the signal's reason only.
   *
   * | State | queued | decision | failure, end | no message in time | signal |
   * |---|---|---|---|---|---|
   * | waiting | -> queued | decided | rejected or unanswered | unanswered, -> late | killed |
   * | queued | - | decided | rejected or unanswered | - | killed: leaves the queue |
   * | late | killed | place given back | - | killed after 2 s | - |
   */
  async choose(query: ChooseQuery, firstMessageMs: number, signal: AbortSignal): Promise<ChooseAnswer> {
    const { clock } = this.#options;
    const answer = await new Promise<ChooseAnswer>((resolve, reject) => {
      let state: 'waiting' | 'queued' | 'late' | 'over' = 'waiting';
      const enter = (next: typeof state): void => {
        state = next;
        timer.cancel();
        if (next !== 'queued') signal.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        enter('over');
        call.kill();
        reject(signal.reason);
      };
      const giveUp = (): void => {
        enter('late');
        timer = clock.after(LATE_MS_MAX, () => call.kill());
        resolve({ kind: 'unanswered', reason: 'silent' });
      };
      const onQueued = (): void => {
        if (state === 'waiting') enter('queued');
        else if (state === 'late') call.kill();
      };
      const call = this.line.choose(query, onQueued); // it never answers in this turn
      let timer = afterSocketsAreRead(clock, firstMessageMs, giveUp);
      signal.addEventListener('abort', onAbort, { once: true });
      call.decision.then(
        (chosen) => {
          const isLate = state === 'late';
          enter('over');
          if (isLate) this.#giveBack(query, chosen);
          else resolve({ kind: 'decided', chosen });
        },
        (error: ServeError) => {
          enter('over');
          resolve(isDecision(error) ? { kind: 'rejected', error } : { kind: 'unanswered', reason: reasonOf(error) });
        },
      );
      if (signal.aborted) onAbort();
    });
    if (answer.kind === 'unanswered' && answer.reason !== 'standby') this.#isOpen = false;
    return answer;
  }

  /** Gives back the place of a decision that came too late to be used. */
  #giveBack({ requestId }: ChooseQuery, { reservationId }: ChosenWorker): void {
    this.line.change({ requestId, reservationId, stage: 'end' });
  }

  /** Ends all further questions. */
  close(): void {
    this.#isOpen = false;
    this.line.close();
  }
}

function lineTo(address: ResidentAddress, options: ResidentClientOptions): ResidentLine {
  if (!('grpc' in address)) return new PlaneLine(address, options);
  if (options.grpcLine === undefined) throw new TypeError(`no gRPC client for ${address.grpc}`);
  return options.grpcLine(address.grpc);
}

/**
 * Whether the router has decided on a rejection (a full fleet, or a mistake of the client) instead of failing to
 * answer.
 */
function isDecision({ code }: ServeError): boolean {
  return code === 'server_overloaded' || code === 'invalid_value';
}

function reasonOf({ worker }: ServeError): UnansweredReason {
  return worker === 'WorkerUnavailable' ? 'standby' : 'lost';
}
