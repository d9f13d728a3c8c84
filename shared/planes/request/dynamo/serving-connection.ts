import type { Socket } from 'node:net';
import { reasonOf, toServeError, toWire } from '../../../errors/index.ts';
import { fromPreprocessedRequest, isDynamoRecovery } from '../../../protocol/index.ts';
import { ServerCall, type ServerCallRequest } from '../server-call.ts';
import type { PlaneHandler } from '../types.ts';
import { AnswerLine } from './answer-line.ts';
import { decodeLarge, decodePayload, isLargePayload } from './codec.ts';
import { serveEmbeddings } from './embedding-batch.ts';
import { RecordCutter } from './record-cutter.ts';
import { type RequestControl, RequestRules, readControl } from './request-rules.ts';
import type { ServingSettings } from './serving-settings.ts';
import { TWO_PART_PREFIX_BYTES, TwoPartRules } from './two-part.ts';
import { WireFault } from './wire-fault.ts';

/** Most bytes of acknowledgements that wait for a caller to read them. */
const UNREAD_BYTES_MAX = 1 << 20;

/** The server, as far as a connection needs it. */
export interface ServingHost {
  /** Returns the handler of an endpoint, or the reason why the worker does not serve it. */
  handlerOf(path: string): PlaneHandler | string;
  /** Opens a connection to a caller. @param onOpen called when it is open */
  dial(host: string, port: number, onOpen: () => void): Socket;
  begun(line: AnswerLine): void;
  over(line: AnswerLine): void;
  /** Called when the connection has brought a whole request. */
  proven(connection: ServingConnection): void;
  closed(connection: ServingConnection): void;
}

/** A request whose body is not decoded yet. */
interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly control: RequestControl;
  readonly handler: PlaneHandler;
}

/**
 * A connection on which a caller sends requests. Each gets one acknowledgement, in the order of the requests, and its
 * answer on a connection that the worker opens. The connection may close at any time; its requests continue.
 */
export class ServingConnection {
  readonly #socket: Socket;
  readonly #settings: ServingSettings;
  readonly #host: ServingHost;
  readonly #cutter: RecordCutter;

  constructor(socket: Socket, settings: ServingSettings, host: ServingHost) {
    this.#socket = socket;
    this.#settings = settings;
    this.#host = host;
    const rules = new RequestRules(settings.messageBytesMax, (bytes, { path, headers, payloadStart }, end, isKept) =>
      this.#request(bytes, path, headers, payloadStart, end, isKept),
    );
    this.#cutter = new RecordCutter(rules);
    socket.on('data', (bytes) => {
      settings.observer.bytesReceived(bytes.length);
      this.#guard(() => this.#read(bytes));
    });
    socket.on('error', () => settings.observer.connectionError()); // 'close' follows
    socket.on('close', () => host.closed(this));
  }

  destroy(): void {
    this.#cutter.stop();
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    this.#cutter.push(bytes);
    if (this.#socket.writableLength > UNREAD_BYTES_MAX)
      throw new WireFault(`over ${UNREAD_BYTES_MAX} bytes of acknowledgements that it does not read`);
  }

  /** Runs a step of reading. After a fault of the caller, nothing tells where its next request begins. */
  #guard(step: () => void): void {
    try {
      step();
    } catch (thrown) {
      this.#settings.observer.connectionError();
      this.#settings.observer.peerRefused?.(this.#socket.remoteAddress ?? 'a caller', reasonOf(thrown));
      this.destroy();
    }
  }

  #request(
    bytes: Buffer,
    path: string,
    headers: Readonly<Record<string, string>>,
    payloadStart: number,
    end: number,
    isKept: boolean,
  ): void {
    const handler = this.#host.handlerOf(path);
    if (typeof handler === 'string') {
      this.#refuse(handler);
      return;
    }
    const rules = new TwoPartRules(end - payloadStart, (_, headerStart, bodyStart) => {
      const control = readControl(bytes.toString('utf8', headerStart, bodyStart));
      this.#host.proven(this);
      const received = { path, headers, control, handler };
      if (isLargePayload(end - bodyStart)) {
        this.#decodeSlowly(
          received,
          isKept ? bytes.subarray(bodyStart, end) : Buffer.from(bytes.subarray(bodyStart, end)),
        );
      } else this.#serve(received, () => decodePayload(control.codec, bytes, bodyStart, end));
    });
    const isWhole = rules.lengthAt(bytes, payloadStart, end) === end - payloadStart;
    if (!isWhole || end - payloadStart < TWO_PART_PREFIX_BYTES) throw new RangeError('a payload that is not two parts');
    rules.take(bytes, payloadStart, end, isKept);
  }

  /** Decodes a large body in slices. The requests after it wait. */
  #decodeSlowly(received: Received, body: Buffer): void {
    this.#cutter.pause();
    this.#socket.pause();
    const serve = (decode: () => unknown): void => {
      const handler = this.#host.handlerOf(received.path); // again: the worker may drain by now
      if (typeof handler === 'string') this.#refuse(handler);
      else this.#serve({ ...received, handler }, decode);
    };
    decodeLarge(received.control.codec, body)
      .then(
        (value) => serve(() => value),
        (thrown: unknown) =>
          serve(() => {
            throw thrown;
          }),
      )
      .finally(() => {
        this.#guard(() => this.#cutter.resume());
        if (!this.#cutter.isPaused) this.#socket.resume(); // else the next body is large, too
      })
      .catch((thrown: unknown) => this.#settings.observer.peerRefused?.('a caller', reasonOf(thrown)));
  }

  /** Hands a request to its handler, and acknowledges it. A body that cannot be read fails only this request. */
  #serve({ path, headers, control, handler }: Received, decode: () => unknown): void {
    const { clock, observer } = this.#settings;
    const { codec, home } = control;
    const line: AnswerLine = new AnswerLine({
      codec,
      subject: home.subject,
      isBare: isDynamoRecovery(path.slice(path.lastIndexOf('/') + 1)),
      clock,
      observer,
      dial: () => this.#host.dial(home.host, home.port, () => line.opened()),
      dialTimeoutMs: this.#settings.dialTimeoutMs,
      onOver: () => this.#host.over(line),
    });
    this.#host.begun(line);
    const request = { id: control.id, endpoint: path, headers, deadlineMs: undefined };
    try {
      const { body, tokenIds, prompts } = fromPreprocessedRequest(decode());
      const serve: PlaneHandler = prompts === undefined ? handler : (call) => serveEmbeddings(call, prompts, handler);
      this.#run(line, { ...request, body, tokenIds }, serve);
    } catch (thrown) {
      line.fail(0, toWire(toServeError(thrown)), false);
    }
    this.#acknowledge(line.refusal ?? '');
    line.dial();
  }

  #run(line: AnswerLine, request: ServerCallRequest, handler: PlaneHandler): void {
    const { clock, observer } = this.#settings;
    const call = new ServerCall({ wire: line, streamId: 0, request, clock, observer });
    line.carry(call);
    call.run(handler);
  }

  #refuse(why: string): void {
    this.#acknowledge(`Server unavailable: ${why}`);
  }

  /** Sends an acknowledgement. @param refusal reason why the request is not taken; empty = it is */
  #acknowledge(refusal: string): void {
    const text = Buffer.from(refusal);
    const bytes = Buffer.allocUnsafe(4 + text.length);
    text.copy(bytes, bytes.writeUInt32BE(text.length, 0));
    this.#settings.observer.bytesSent(bytes.length);
    this.#socket.write(bytes);
  }
}
