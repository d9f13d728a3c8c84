import { type Clock, type Random, systemRandom } from '../../../clock/index.ts';
import { type ServeError, workerError } from '../../../errors/index.ts';
import { DynamoAnswerReader, readTypedError, toPreprocessedRequest } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
import type { NatsClient } from '../../nats/client.ts';
import type { RecordPieces } from '../../record-codec.ts';
import { ClientCall } from '../client-call.ts';
import type { RequestPlaneObserver } from '../observer.ts';
import { followCertificates } from '../tcp/protection.ts';
import type { PlaneTls } from '../tcp/tls.ts';
import type { Call, CallSink, PlaneRequest, RequestPlane, Transport } from '../types.ts';
import { AnswerStream, type ItemReader } from './answer-stream.ts';
import { CallHome } from './call-home.ts';
import { type DynamoCodec, encodePayload } from './codec.ts';
import type { CallHomeSettings } from './home-settings.ts';
import { requestMessage } from './message.ts';
import { NatsRequests } from './nats-requests.ts';
import { PlainItems } from './plain-items.ts';
import type { RequestSettings } from './request-connection.ts';
import { RequestPool } from './request-pool.ts';
import { type DynamoTarget, dynamoTargetOf } from './target.ts';
import { twoPartMessage } from './two-part.ts';

/** Settings of the calling side of Dynamo's request plane. */
export interface DynamoPlaneOptions {
  readonly clock: Clock;
  /** @default systemRandom */
  readonly random?: Random;
  readonly observer: RequestPlaneObserver;
  /** Listener that workers dial. It is opened with the first call. */
  readonly home: CallHomeSettings;
  readonly requests: Omit<RequestSettings, 'clock' | 'observer' | 'tls'>;
  /** Certificates of both directions. @default none */
  readonly tls?: PlaneTls | undefined;
  /** Reads the certificates again; they are renewed while the process runs. */
  readonly readTls?: () => PlaneTls | undefined;
  /** Opens the connection for workers behind NATS, when one is called for the first time. */
  readonly openNats: () => NatsClient;
  /** Deadline of an acknowledgement over NATS (`DYN_NATS_REQUEST_TIMEOUT_SECS`). */
  readonly natsTimeoutMs: number;
}

/** Headers that Dynamo's workers read. */
const HEADERS = ['traceparent', 'tracestate', 'x-request-id'] as const;

/**
 * The calling side of Dynamo's request plane. A request travels on a shared connection to its worker, or over NATS. The
 * worker acknowledges it, and then dials this process to deliver the answer on a connection of its own. So only a
 * process that workers can dial has this plane.
 *
 * @example
 * const plane = new DynamoPlane({ ... });
 * const call = plane.call({ dynamo_tcp: '10.0.0.5:41230/2a/dynamo/backend/generate' }, request, sink);
 */
export class DynamoPlane implements Pick<RequestPlane, 'call' | 'close'> {
  readonly #options: DynamoPlaneOptions;
  readonly #random: Random;
  readonly #pool: RequestPool;
  readonly #plain = new PlainItems();
  #home: Promise<CallHome> | undefined;
  #nats: { readonly client: NatsClient; readonly requests: NatsRequests } | undefined;
  #certificates: { cancel(): void } | undefined;
  #isClosed = false;

  constructor(options: DynamoPlaneOptions) {
    const { clock, observer, tls, requests } = options;
    this.#options = options;
    this.#random = options.random ?? systemRandom;
    this.#pool = new RequestPool({ ...requests, clock, observer, tls: tls?.client });
  }

  call(transport: Transport, request: PlaneRequest, sink: CallSink): Call {
    const { clock, observer } = this.#options;
    const call = new ClientCall({ sink, clock, observer, deadlineMs: request.deadlineMs, hasCredit: false });
    call.guard(() => {
      if (this.#isClosed) throw workerError('CannotConnect', 'the request plane is closed');
      const target = dynamoTargetOf(transport);
      const subject = this.#random.uuid();
      const stream = new AnswerStream({
        ...{ call, subject, clock, codec: target.codec },
        reader: readerOf(call, request),
        plain: target.codec === 'msgpack' && request.isVerbatim !== true ? this.#plain : undefined,
        failureIn: readTypedError,
      });
      this.#listening()
        .then((home) => call.guard(() => this.#send(call, stream, { target, subject, request, home })))
        .catch((thrown: unknown) => call.fail(workerError('CannotConnect', thrown)));
    });
    return call;
  }

  /** Fails what is open, and closes every connection. */
  async close(): Promise<void> {
    const error = workerError('Disconnected', 'the request plane was closed');
    this.#isClosed = true;
    this.#certificates?.cancel();
    this.#pool.close(error);
    this.#nats?.requests.close(error);
    await this.#nats?.client.close();
    const home = await this.#home?.catch(() => undefined); // it did not open
    await home?.close(error);
  }

  #send(
    call: ClientCall,
    stream: AnswerStream,
    {
      target,
      subject,
      request,
      home,
    }: { target: DynamoTarget; subject: string; request: PlaneRequest; home: CallHome },
  ): void {
    if (call.isClosed) return;
    if (this.#isClosed) throw workerError('Disconnected', 'the request plane was closed');
    const payload = payloadOf(request, target.codec, subject, home.address);
    const { requestTimeoutMs } = this.#options.requests;
    const unacked = {
      sent: () => call.sent(target.kind === 'nats' ? this.#options.natsTimeoutMs : requestTimeoutMs),
      acknowledged: (failure: ServeError | undefined) => stream.acknowledged(failure),
    };
    stream.expectAt(home);
    const headers = headersOf(request);
    if (target.kind === 'nats') {
      this.#overNats().send({ subject: target.subject, headers, payload }, unacked);
      return;
    }
    const message = { path: target.path, headers, payload };
    this.#pool.send(target, requestMessage(message, this.#options.home.messageBytesMax), unacked);
  }

  /** Opens the listener. It is tried again with the next call if it could not be opened. */
  #listening(): Promise<CallHome> {
    const { home, clock, observer, tls } = this.#options;
    this.#home ??= CallHome.listen({ ...home, tls: tls?.server }, clock, observer).then(
      (opened) => {
        this.#followCertificates(opened);
        return opened;
      },
      (thrown: unknown) => {
        this.#home = undefined;
        throw thrown;
      },
    );
    return this.#home;
  }

  #followCertificates(home: CallHome): void {
    const { clock, tls, readTls } = this.#options;
    if (tls === undefined || readTls === undefined || this.#isClosed) return;
    this.#certificates = followCertificates(clock, readTls, tls, (renewed) => {
      if (renewed.server !== undefined) home.renew(renewed.server);
      this.#pool.settings = { ...this.#pool.settings, tls: renewed.client };
    });
  }

  #overNats(): NatsRequests {
    if (this.#nats === undefined) {
      const client = this.#options.openNats();
      this.#nats = { client, requests: new NatsRequests(client, this.#random, this.#options.natsTimeoutMs) };
    }
    return this.#nats.requests;
  }
}

/** Returns the message of two parts that asks a worker: its control record, and the request in the worker's codec. */
function payloadOf(request: PlaneRequest, codec: DynamoCodec, subject: string, address: string): RecordPieces {
  const { id, body, tokenIds } = request;
  const info = { address, subject, context: id, stream_type: 'response' };
  const control = {
    id,
    request_type: 'single_in',
    response_type: 'many_out',
    payload_codec: codec,
    connection_info: { transport: 'tcp_server', info: JSON.stringify(info) },
  };
  const record = request.isVerbatim === true ? body : toPreprocessedRequest(body, tokenIds);
  return twoPartMessage(Buffer.from(JSON.stringify(control)), encodePayload(codec, record));
}

function headersOf({ id, headers }: PlaneRequest): Readonly<Record<string, string>> {
  const sent: Record<string, string> = { 'request-id': id };
  for (const name of HEADERS) if (headers[name] !== undefined) sent[name] = headers[name];
  return sent;
}

/** Returns the reader of an answer: of generation, or of any endpoint whose items the caller reads itself. */
function readerOf(call: ClientCall, { isVerbatim }: PlaneRequest): ItemReader {
  if (isVerbatim !== true) return new DynamoAnswerReader(call);
  return {
    item(annotated) {
      if (isRecord(annotated) && annotated.event === 'error') call.fail(readTypedError(annotated));
      else call.output({ body: isRecord(annotated) && 'data' in annotated ? annotated.data : annotated });
    },
  };
}
