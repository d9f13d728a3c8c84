import type { Clock, Timer } from '../../../clock/index.ts';
import { type ServeError, workerError } from '../../../errors/index.ts';
import { isRecord } from '../../../records/index.ts';
import type { CallerWire, ClientCall } from '../client-call.ts';
import { type DynamoCodec, decodeLarge, decodePayload, isLargePayload } from './codec.ts';
import type { AnswerConnection, HomeStream } from './home-connection.ts';
import type { PlainItems } from './plain-items.ts';
import { WireFault } from './wire-fault.ts';

/** Longest wait for a worker that has accepted a request to dial. It may first wait for a place in its own pool. */
const DIAL_TIMEOUT_MS = 30_000;
/** Longest wait for the first sign of the engine. A request may wait for long in the queue of an engine. */
const PROLOGUE_TIMEOUT_MS = 600_000;
/** Time in which a worker that was asked to stop may send what it has already made. */
const STOP_MS = 2000;
/** Items of a stream from which the form of plain items may be learned. */
const LEARNED_ITEMS_MAX = 8;

/** Takes the items of an answer, each as its worker sent it. */
export interface ItemReader {
  item(annotated: unknown): void;
}

/** The listener, as far as a stream needs it. */
interface Listener {
  expect(subject: string, stream: HomeStream): void;
  forget(subject: string): void;
}

interface AnswerStreamOptions {
  readonly call: ClientCall;
  /** Unguessable name of the stream. */
  readonly subject: string;
  readonly codec: DynamoCodec;
  readonly clock: Clock;
  readonly reader: ItemReader;
  /** Reads plain items of generation; undefined for other answers. */
  readonly plain: PlainItems | undefined;
  /** Returns the failure that a prologue states. */
  readonly failureIn: (prologue: unknown) => ServeError;
}

/**
 * The answer to one request, which its worker delivers on a connection of its own.
 *
 * | State | dialled | prologue | its error | item | last item | connection closed |
 * |---|---|---|---|---|---|---|
 * | waiting | -> greeted | - | - | - | - | - |
 * | greeted | - | -> open | fails, -> over | fault | fault | fails, -> over |
 * | open | - | fault | - | to the reader | ends, -> over | fails, or ends if it was asked to stop, -> over |
 * | over | gets `kill` | - | - | - | - | - |
 */
export class AnswerStream implements CallerWire, HomeStream {
  readonly #options: AnswerStreamOptions;
  readonly #call: ClientCall;
  #listener: Listener | undefined;
  #connection: AnswerConnection | undefined;
  #state: 'waiting' | 'greeted' | 'open' | 'over' = 'waiting';
  #isStopping = false;
  #isPaused = false;
  #isDecoding = false;
  /** Whether the worker has sent the mark of the end. */
  #isWhole = false;
  #stopTimer: Timer | undefined;
  #lessons = 0;

  constructor(options: AnswerStreamOptions) {
    this.#options = options;
    this.#call = options.call;
    this.#call.attach(this, 0);
  }

  /** Expects the worker to dial, from now until the stream is over. */
  expectAt(listener: Listener): void {
    if (this.#state === 'over') return;
    this.#listener = listener;
    listener.expect(this.#options.subject, this);
  }

  /** Handles the acknowledgement of the request. @param failure reason why the worker refuses */
  acknowledged(failure: ServeError | undefined): void {
    if (failure !== undefined) this.#call.fail(failure);
    else if (this.#state === 'waiting') this.#call.awaits('the worker did not dial', DIAL_TIMEOUT_MS);
  }

  stop(): void {
    this.#isStopping = true;
    this.#connection?.stop();
    this.#stopTimer ??= this.#options.clock.after(STOP_MS, () => {
      this.#connection?.kill();
      this.#call.end();
    });
  }

  kill(): void {
    this.#connection?.kill();
  }

  credit(): void {}

  pause(): void {
    this.#isPaused = true;
    this.#connection?.hold();
  }

  resume(): void {
    this.#isPaused = false;
    if (!this.#isDecoding) this.#connection?.release();
  }

  release(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.#stopTimer?.cancel();
    this.#listener?.forget(this.#options.subject);
    if (this.#isWhole) this.#connection?.finish();
    else this.#connection?.kill();
  }

  arrived(connection: AnswerConnection): void {
    this.#connection = connection;
    this.#state = 'greeted';
    this.#call.awaits('no prologue', PROLOGUE_TIMEOUT_MS);
    if (this.#isStopping) connection.stop();
    if (this.#isPaused) connection.hold();
  }

  message(bytes: Buffer, headerStart: number, bodyStart: number, end: number, isKept: boolean): void {
    if (bodyStart > headerStart) this.#control(bytes.toString('utf8', headerStart, bodyStart));
    if (end === bodyStart || this.#state === 'over') return;
    if (this.#state !== 'open') throw new WireFault('an item before the prologue');
    const { codec, plain } = this.#options;
    if (plain !== undefined && this.#takePlain(plain, bytes, bodyStart, end)) return;
    if (isLargePayload(end - bodyStart)) {
      this.#decodeSlowly(isKept ? bytes.subarray(bodyStart, end) : Buffer.from(bytes.subarray(bodyStart, end)));
      return;
    }
    const record = decodePayload(codec, bytes, bodyStart, end, isKept);
    if (plain !== undefined && this.#lessons++ < LEARNED_ITEMS_MAX) plain.learn(record, bytes, bodyStart, end);
    this.#take(record);
  }

  lost(error: ServeError): void {
    if (this.#isStopping && error.worker === 'Disconnected') this.#call.end();
    else this.#call.fail(error);
  }

  /** Handles a header: the prologue, or the end of what the worker sends. */
  #control(header: string): void {
    if (this.#state === 'greeted') this.#prologue(JSON.parse(header));
    else if (header !== '"sentinel"') throw new WireFault('a header that is not the end of the stream');
    else this.lost(workerError('Disconnected', 'the worker ended the stream before its last item'));
  }

  #prologue(prologue: unknown): void {
    if (!isRecord(prologue)) throw new WireFault('a prologue that is not an object');
    if (prologue.error === null || prologue.error === undefined) {
      this.#state = 'open';
      this.#call.accept();
    } else this.#call.fail(this.#options.failureIn(prologue));
  }

  /** Passes the tokens of a plain item on. Returns false for any other item. */
  #takePlain(plain: PlainItems, bytes: Buffer, start: number, end: number): boolean {
    const count = plain.read(bytes, start, end);
    if (count === 0) return false;
    try {
      this.#call.tokens(plain.choice, plain.ids, 0, count);
    } catch (thrown) {
      this.#call.sinkThrew(thrown);
    }
    return true;
  }

  /** Takes one record of the answer: an item, or the mark of its end. */
  #take(record: unknown): void {
    if (!isRecord(record)) throw new WireFault('an item that is not an object');
    if (record.data !== undefined && record.data !== null) this.#item(record.data);
    else if (record.complete_final !== true) throw new WireFault('an item without data');
    if (record.complete_final === true) {
      this.#isWhole = true;
      this.#call.end();
    }
  }

  /** Passes an item on. An error of the reader ends only this stream. */
  #item(item: unknown): void {
    try {
      this.#options.reader.item(item);
    } catch (thrown) {
      this.#call.sinkThrew(thrown);
    }
  }

  /** Decodes a large record in slices. Everything after it waits. */
  #decodeSlowly(bytes: Buffer): void {
    this.#isDecoding = true;
    this.#connection?.hold();
    decodeLarge(this.#options.codec, bytes)
      .then((record) => {
        if (this.#state === 'open') this.#take(record);
      })
      .catch((thrown: unknown) => this.#call.abandon(workerError('BackendProtocol', thrown)))
      .finally(() => {
        this.#isDecoding = false;
        if (!this.#isPaused) this.#connection?.release();
      });
  }
}
