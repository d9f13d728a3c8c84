import type { MsgHdrs } from '@nats-io/nats-core';
import type { Random, Timer } from '../../../clock/index.ts';
import { type ServeError, workerError } from '../../../errors/index.ts';
import type { NatsClient } from '../../nats/client.ts';
import { messageHeaders } from '../../nats/library.ts';
import type { NatsMessage } from '../../nats/messages.ts';
import { bytesOf, type RecordPieces } from '../../record-codec.ts';
import { refusalOf, type UnackedRequest } from './request-connection.ts';

const NO_RESPONDERS = 503;
/** Most requests without an acknowledgement. */
const UNACKED_MAX = 65_536;

/** A request as NATS carries it. */
interface NatsRequest {
  readonly subject: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: RecordPieces;
}

interface Waiting {
  readonly request: UnackedRequest;
  readonly timer: Timer;
}

/**
 * Sends requests to the NATS subjects of Dynamo's workers. A worker acknowledges at once, and dials this process with
 * its answer as over TCP.
 */
export class NatsRequests {
  readonly #client: NatsClient;
  readonly #inbox: string;
  readonly #timeoutMs: number;
  readonly #waiting = new Map<string, Waiting>();
  #isSubscribed = false;
  #sent = 0;

  /** @param timeoutMs deadline of an acknowledgement (`DYN_NATS_REQUEST_TIMEOUT_SECS`) */
  constructor(client: NatsClient, random: Random, timeoutMs: number) {
    this.#client = client;
    this.#inbox = `_INBOX.${random.instanceId()}${random.instanceId()}`;
    this.#timeoutMs = timeoutMs;
    client.watch({ away: (reason) => this.#failAll(workerError('CannotConnect', reason)) });
  }

  /** Sends a request, once there is a connection. A failure reaches `request` on a later turn. */
  send(message: NatsRequest, request: UnackedRequest): void {
    const { clock } = this.#client;
    if (this.#waiting.size >= UNACKED_MAX)
      throw workerError('WorkerOverloaded', `${UNACKED_MAX} requests wait at NATS`);
    this.#subscribe();
    const reply = `${this.#inbox}.${(this.#sent++).toString(36)}`;
    const attempt = new AbortController();
    const timer = clock.after(this.#timeoutMs, () => {
      attempt.abort(workerError('ConnectionTimeout', `not accepted within ${this.#timeoutMs} ms`));
      this.#settle(reply, attempt.signal.reason as ServeError);
    });
    this.#waiting.set(reply, { request, timer });
    Promise.all([messageHeaders(message.headers), this.#client.connected(attempt.signal)]).then(
      ([headers]) => this.#publish(message, headers, reply),
      (thrown: unknown) => this.#settle(reply, workerError('CannotConnect', thrown)),
    );
  }

  close(error: ServeError): void {
    this.#failAll(error);
  }

  #publish({ subject, headers: fields, payload }: NatsRequest, headers: MsgHdrs, reply: string): void {
    const waiting = this.#waiting.get(reply);
    if (waiting === undefined) return; // too late
    const { messageBytesMax } = this.#client;
    const bytes = headerBytes(fields) + bytesOf(payload);
    if (bytes > messageBytesMax) {
      const text = `request of ${bytes} bytes; the NATS server takes ${messageBytesMax}`;
      this.#settle(reply, workerError('PayloadTooLarge', text));
    } else if (this.#client.send(subject, Buffer.concat(payload), reply, headers)) waiting.request.sent();
    else this.#settle(reply, workerError('CannotConnect', `NATS does not take a message for ${subject}`));
  }

  #subscribe(): void {
    if (this.#isSubscribed) return;
    this.#isSubscribed = true;
    this.#client.subscribe(`${this.#inbox}.*`, (message) => this.#receive(message));
  }

  #receive({ subject, status, data }: NatsMessage): void {
    if (status === NO_RESPONDERS)
      this.#settle(subject, workerError('CannotConnect', 'no worker listens at its subject'));
    else this.#settle(subject, data.length === 0 ? undefined : refusalOf(Buffer.from(data).toString('utf8')));
  }

  #failAll(error: ServeError): void {
    for (const reply of [...this.#waiting.keys()]) this.#settle(reply, error);
  }

  #settle(reply: string, failure: ServeError | undefined): void {
    const waiting = this.#waiting.get(reply);
    if (waiting === undefined) return;
    this.#waiting.delete(reply);
    waiting.timer.cancel();
    waiting.request.acknowledged(failure);
  }
}

/** Returns the length of headers on the wire, which counts towards the limit of a message. */
function headerBytes(fields: Readonly<Record<string, string>>): number {
  let bytes = 'NATS/1.0\r\n\r\n'.length;
  for (const [name, value] of Object.entries(fields)) bytes += Buffer.byteLength(`${name}: ${value}\r\n`);
  return bytes;
}
