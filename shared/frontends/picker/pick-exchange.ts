import { BodyBytes, type BodyIntake, bodyUnreadable } from '../http/exchange/body-intake.ts';
import type { FrameSink, HostExchange } from '../http/exchange/exchange.ts';
import type { ByteBudget } from '../inference/deps.ts';
import type { RequestHead } from './request-head.ts';

/** An answer that Envoy gives its client in place of a worker. */
export interface ImmediateAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

/** Collects what the app answers. An answer that comes after `silence` is lost: the worker has answered. */
class AnswerSink implements FrameSink {
  readonly #onAnswer: (answer: ImmediateAnswer) => void;
  readonly #closed = new AbortController();
  #status: number | undefined;
  #headers: Readonly<Record<string, string>> = {};
  #parts: Buffer[] = [];
  #isOver = false;

  constructor(onAnswer: (answer: ImmediateAnswer) => void) {
    this.#onAnswer = onAnswer;
  }

  get isNew(): boolean {
    return this.#status === undefined;
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status;
    this.#headers = headers;
  }

  write(frame: string | Uint8Array): void {
    if (!this.#isOver) this.#parts.push(Buffer.from(frame as Uint8Array));
  }

  end(): void {
    if (this.#isOver) return;
    const body = Buffer.concat(this.#parts);
    this.silence();
    this.#onAnswer({ status: this.#status ?? 200, headers: this.#headers, body });
  }

  breakOff(): void {
    this.end(); // nothing of the answer has left, so its status can still tell the failure
  }

  flush(): void {}

  isBlocked(): boolean {
    return false;
  }

  onUnblocked(callback: () => void): void {
    queueMicrotask(callback);
  }

  silence(): void {
    this.#isOver = true;
    this.#parts = [];
  }

  leave(): void {
    this.silence();
    this.#closed.abort();
  }
}

/**
 * The exchange of a request that Envoy holds until its worker is chosen. The app reads the request, and sends errors.
 */
export class PickExchange implements HostExchange {
  readonly method: string;
  path: string;
  readonly query: string;
  readonly sink: AnswerSink;
  readonly #head: RequestHead;
  readonly #body: HeldBody;

  constructor(head: RequestHead, body: HeldBody, onAnswer: (answer: ImmediateAnswer) => void) {
    this.#head = head;
    this.#body = body;
    this.method = head.method;
    this.path = head.path;
    this.query = head.query;
    this.sink = new AnswerSink(onAnswer);
  }

  get headerLines(): number {
    return this.#head.lines;
  }

  headerNames(): readonly string[] {
    return this.#head.names();
  }

  header(name: string): string | undefined {
    return this.#head.get(name);
  }

  readBody(intake: BodyIntake): Promise<void> {
    return this.#body.read(intake);
  }

  /** Ignores what the app writes from now on. */
  silence(): void {
    this.sink.silence();
  }

  /** Tells the app that no client waits any more. */
  leave(): void {
    this.sink.leave();
    this.#body.fail(bodyUnreadable('the request was given up'));
  }
}

/** Keeps the body of a request until its worker is chosen, within the room for bodies. */
export class HeldBody {
  readonly #budget: Pick<ByteBudget, 'take' | 'give'>;
  readonly #bytes = new BodyBytes();
  #takenBytes = 0;
  #isEnded = false;
  #failure: unknown;
  #reader: { readonly intake: BodyIntake; resolve(): void; reject(reason: unknown): void } | undefined;

  constructor(budget: Pick<ByteBudget, 'take' | 'give'>) {
    this.#budget = budget;
  }

  /** Takes a chunk. A body that finds no room fails for its reader, and is dropped. */
  add(chunk: Uint8Array): void {
    if (this.#failure !== undefined || chunk.length === 0) return;
    try {
      this.#budget.take(chunk.length);
      this.#takenBytes += chunk.length;
      this.#bytes.add(chunk);
      this.#reader?.intake.add(chunk);
    } catch (thrown) {
      this.fail(thrown);
    }
  }

  end(): void {
    this.#isEnded = true;
    this.#reader?.resolve();
  }

  /** Returns the body so far in pieces. */
  get parts(): readonly Uint8Array[] {
    return this.#bytes.parts;
  }

  /** Passes the body to `intake`, and resolves at its end. Rejects with the failure of the body, or what it throws. */
  read(intake: BodyIntake): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#reader = { intake, resolve, reject };
      try {
        if (this.#failure !== undefined) throw this.#failure;
        for (const chunk of this.#bytes.parts) intake.add(chunk);
        if (this.#isEnded) resolve();
      } catch (thrown) {
        this.fail(thrown);
      }
    });
  }

  /** Drops the body. Its reader gets `reason`, unless the body was complete. */
  fail(reason: unknown): void {
    this.#failure ??= reason;
    this.release();
    this.#reader?.reject(this.#failure);
  }

  /** Returns the body in pieces, whose room is no longer taken. */
  release(): readonly Uint8Array[] {
    const { parts } = this.#bytes;
    this.#bytes.clear();
    this.#budget.give(this.#takenBytes);
    this.#takenBytes = 0;
    return parts;
  }
}
