import type { Socket } from 'node:net';
import type { Clock, Timer } from '../../../clock/index.ts';
import { type WireError, workerError } from '../../../errors/index.ts';
import { type EngineOutput, toDynamoOutput, toTypedError } from '../../../protocol/index.ts';
import type { RecordPieces } from '../../record-codec.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import type { AnswerWire, ServerCall } from '../server-call.ts';
import { type DynamoCodec, encodePayload } from './codec.ts';
import { RecordCutter } from './record-cutter.ts';
import { tokenItem } from './token-item.ts';
import { TwoPartRules, twoPartMessage } from './two-part.ts';

/** Longest control message of a caller: one word. */
const CONTROL_BYTES_MAX = 4096;
/** Longest wait for the caller to read what fills its connection, or the rest of an answer that is complete. */
const UNREAD_MS_MAX = 600_000;
/** Longest wait for the caller to close its end, once the whole answer has left. */
const FAREWELL_MS = 5000;

const NO_HEADER = new Uint8Array(0);
const ACCEPTED = twoPartMessage(Buffer.from('{"error":null}'));
const SENTINEL = twoPartMessage(Buffer.from('"sentinel"'));

interface AnswerLineOptions {
  readonly codec: DynamoCodec;
  readonly subject: string;
  /** Whether the items of the answer are bare rather than annotated. */
  readonly isBare: boolean;
  readonly clock: Clock;
  readonly observer: RequestPlaneObserver;
  /** Opens the connection to the caller. */
  readonly dial: () => Socket;
  /** Time limit of dialling, in milliseconds. */
  readonly dialTimeoutMs: number;
  /** Called once, when nothing more happens on the line. */
  readonly onOver: () => void;
}

/**
 * The line to the caller on which a worker delivers one answer. The worker dials it after it has acknowledged the
 * request. Output that the engine makes before the line is open waits, at most as much as the initial credit.
 *
 * | State | output | the engine ends | `stop` | `kill`, closed, cannot dial, nothing read for ten minutes |
 * |---|---|---|---|---|
 * | undecided | kept | kept; a refusal -> over | - | - |
 * | dialling | kept | kept | - | call aborted, -> over |
 * | open | sent | last item, -> ending | to the call | call aborted, -> over |
 * | ending | - | - | ignored | -> over |
 */
export class AnswerLine implements AnswerWire {
  readonly hearsMoves = false;
  readonly #options: AnswerLineOptions;
  #call: ServerCall | undefined;
  #state: 'undecided' | 'dialling' | 'open' | 'ending' | 'over' = 'undecided';
  #socket: Socket | undefined;
  #kept: Uint8Array[] = [];
  #isComplete = false;
  #refusal: string | undefined;
  /** Output that has granted no credit yet: it waits for the connection, or for a socket that is full. */
  #owed = 0;
  #timer: Timer | undefined;
  /** Runs while the connection of an open line is full. */
  #unreadTimer: Timer | undefined;

  constructor(options: AnswerLineOptions) {
    this.#options = options;
  }

  /** Reason with which the worker refuses the request before it is acknowledged; undefined if it takes it. */
  get refusal(): string | undefined {
    return this.#refusal;
  }

  /** Whether the answer is not delivered yet. */
  get isOpen(): boolean {
    return this.#state !== 'over';
  }

  carry(call: ServerCall): void {
    this.#call = call;
  }

  /** Dials the caller, after the acknowledgement. Does nothing if the request was refused. */
  dial(): void {
    if (this.#state !== 'undecided') return;
    if (this.#refusal !== undefined) {
      this.#over();
      return;
    }
    this.#state = 'dialling';
    const { dial, clock, dialTimeoutMs } = this.#options;
    this.#timer = clock.after(dialTimeoutMs, () => this.#lose(`the caller did not answer within ${dialTimeoutMs} ms`));
    const socket = dial();
    this.#socket = socket;
    const rules = new TwoPartRules(CONTROL_BYTES_MAX, (bytes, start, end) =>
      this.#control(bytes.toString('utf8', start, end)),
    );
    const cutter = new RecordCutter(rules);
    socket.on('data', (bytes) => this.#guard(() => cutter.push(bytes)));
    socket.on('drain', () => this.#drained());
    socket.on('error', () => this.#options.observer.connectionError()); // 'close' follows
    socket.on('close', () => this.#lose('the caller closed the stream'));
  }

  /** Handles the open connection: the caller learns which stream it is, and what was kept follows. */
  opened(): void {
    if (this.#state !== 'dialling') return;
    this.#state = 'open';
    this.#timer?.cancel();
    const handshake = JSON.stringify({ subject: this.#options.subject, stream_type: 'response' });
    const kept = this.#kept;
    this.#kept = [];
    this.#writeAll([...twoPartMessage(Buffer.from(handshake)), ...kept]);
    if (this.#isComplete) this.#finish();
    else this.#drained();
  }

  accept(): void {
    this.#send(ACCEPTED);
  }

  askToMove(): void {}

  tokens(_streamId: number, choice: number, ids: ArrayLike<number>, start: number, count: number): void {
    this.#owed += count;
    this.#sendOne(tokenItem(this.#options.codec, choice, ids, start, count));
  }

  encodeItem(output: EngineOutput): RecordPieces {
    const { codec, isBare } = this.#options;
    const item = toDynamoOutput(output);
    return encodePayload(codec, { data: isBare ? item : { data: item }, complete_final: false });
  }

  item(_streamId: number, record: RecordPieces): void {
    this.#owed++;
    this.#send(twoPartMessage(NO_HEADER, record));
  }

  end(): void {
    this.#complete();
  }

  fail(_streamId: number, error: WireError, isAccepted: boolean): void {
    if (this.#state === 'undecided' && !isAccepted) {
      this.#refusal = refusalOf(error);
      if (this.#refusal !== undefined) return;
    }
    const typed = toTypedError(error);
    if (!isAccepted) {
      this.#send(twoPartMessage(Buffer.from(JSON.stringify({ error: error.message, typed_error: typed }))));
      this.#isComplete = true;
      this.#finish();
      return;
    }
    const data = { event: 'error', comment: [error.message], error: typed };
    this.#send(twoPartMessage(NO_HEADER, encodePayload(this.#options.codec, { data, complete_final: false })));
    this.#complete();
  }

  release(): void {}

  isBlocked(): boolean {
    return this.#state !== 'open' || this.#socket?.writableNeedDrain === true;
  }

  /** Drops the line at once. */
  destroy(): void {
    this.#lose('the worker was closed');
  }

  #complete(): void {
    const { codec } = this.#options;
    this.#send(twoPartMessage(NO_HEADER, encodePayload(codec, { complete_final: true })));
    this.#send(SENTINEL);
    this.#isComplete = true;
    this.#finish();
  }

  /** Closes this end once everything is written, however slowly the caller reads. */
  #finish(): void {
    if (this.#state !== 'open') return;
    this.#state = 'ending';
    const { clock } = this.#options;
    this.#unreadTimer?.cancel();
    this.#timer = clock.after(UNREAD_MS_MAX, () => this.#giveUp());
    this.#socket?.end(() => {
      this.#timer?.cancel();
      if (this.#state === 'ending') this.#timer = clock.after(FAREWELL_MS, () => this.#over());
    });
  }

  #send(pieces: RecordPieces): void {
    if (this.#state === 'open') {
      this.#writeAll(pieces);
      this.#grant();
    } else if (this.#state !== 'over') this.#kept.push(...pieces);
  }

  #sendOne(bytes: Uint8Array): void {
    if (this.#state === 'open') {
      this.#write(bytes);
      this.#grant();
    } else if (this.#state !== 'over') this.#kept.push(bytes);
  }

  /** Writes pieces in one go. */
  #writeAll(pieces: RecordPieces): void {
    this.#socket?.cork();
    for (const piece of pieces) this.#write(piece);
    this.#socket?.uncork();
  }

  #write(bytes: Uint8Array): void {
    this.#options.observer.bytesSent(bytes.length);
    this.#socket?.write(bytes);
  }

  #drained(): void {
    this.#unreadTimer?.cancel();
    this.#unreadTimer = undefined;
    this.#grant();
    if (this.#state === 'open') this.#call?.wireUnblocked();
  }

  /**
   * Lets the engine go on if the socket has taken everything at once. It is called between two messages, because what
   * the call has kept follows at once.
   */
  #grant(): void {
    const owed = this.#owed;
    if (owed === 0 || this.#state !== 'open') return;
    if (this.isBlocked()) {
      this.#unreadTimer ??= this.#options.clock.after(UNREAD_MS_MAX, () => this.#giveUp());
      return;
    }
    this.#owed = 0;
    this.#call?.grant(owed);
  }

  /** Drops the rest of the answer, which the caller misses. */
  #giveUp(): void {
    this.#options.observer.connectionError();
    this.#lose(`the caller has read nothing for ${UNREAD_MS_MAX / 1000} s`);
  }

  #control(word: string): void {
    if (word === '"kill"') this.#lose('the caller dropped the request');
    else if (word === '"stop"') this.#call?.stop();
  }

  /** Runs a step of reading. A fault of the caller ends the stream. */
  #guard(step: () => void): void {
    try {
      step();
    } catch {
      this.#options.observer.connectionError();
      this.#lose('the caller broke the protocol');
    }
  }

  /** Ends the line from the caller's side. The engine drops the request, unless the answer is complete. */
  #lose(why: string): void {
    if (this.#state === 'over') return;
    const isDelivered = this.#state === 'ending';
    this.#over();
    if (!isDelivered) this.#call?.abort(workerError('Cancelled', why));
  }

  #over(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.#kept = [];
    this.#timer?.cancel();
    this.#unreadTimer?.cancel();
    this.#socket?.destroy();
    this.#options.onOver();
  }
}

/** Returns the text with which a worker refuses a request before it takes it; undefined for any other failure. */
function refusalOf({ kind, message }: WireError): string | undefined {
  if (kind === 'WorkerOverloaded') return 'Server overloaded: worker at capacity';
  return kind === 'WorkerUnavailable'
    ? `Server unavailable: ${message.replace(/^Server unavailable: /, '')}`
    : undefined;
}
