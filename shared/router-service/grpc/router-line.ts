import {
  type ChannelCredentials,
  Client,
  type ClientOptions,
  credentials,
  Metadata,
  type ServiceError,
} from '@grpc/grpc-js';
import type { Clock } from '../../clock/index.ts';
import { fromWire, type ServeError, type WorkerErrorKind, workerError } from '../../errors/index.ts';
import { HEALTH, same, toBuffer } from '../../grpc/index.ts';
import type { PlaneClientTls } from '../../planes/index.ts';
import type { ExplanationRecord } from '../../scheduler/index.ts';
import type { ChooseQuery, ChosenWorker, ReservationChangeQuery } from '../messages.ts';
import { type AskedCall, CHANGE_MS_MAX, EXPLAIN_MS_MAX, type ResidentLine, UNDECIDED } from '../residents.ts';
import {
  decodeChooseResponse,
  decodeExplainResponse,
  ERROR_KIND_TRAILER,
  ERROR_PARAM_TRAILER,
  encodeChooseRequest,
  encodeExplainRequest,
  encodeReleaseRequest,
  MESSAGE_BYTES_MAX,
  ROUTER,
} from './codec.ts';

/**
 * Options of the gRPC library, which leave to the resident router's channel when to connect and which router to ask.
 */
const OPTIONS: ClientOptions = {
  'grpc.max_receive_message_length': MESSAGE_BYTES_MAX,
  'grpc.enable_retries': 0,
  'grpc.enable_http_proxy': 0,
  'grpc.enable_channelz': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.use_local_subchannel_pool': 1, // a new connection does not wait for the back-off of the last one
};
const NOTHING = new Uint8Array(0);

export interface RouterLineOptions {
  /** Secret sent with every call, if the fleet has one. */
  readonly secret?: string | undefined;
  /**
   * Secret before the rotation, for routers that do not have the new one yet. It is sent along with the new one.
   * @default none
   */
  readonly previousSecret?: string | undefined;
  /** Returns the TLS of a connection. Called for each one, because certificates are renewed. @default no TLS */
  readonly tls?: () => PlaneClientTls | undefined;
}

/** Asks the resident router at `place`, `host:port`, by gRPC. Connects at the first question. */
export class RouterLine implements ResidentLine {
  readonly #place: string;
  readonly #clock: Clock;
  readonly #metadata = new Metadata();
  readonly #tls: () => PlaneClientTls | undefined;
  #client: Client | undefined;
  #isClosed = false;

  constructor(place: string, clock: Clock, { secret, previousSecret, tls = () => undefined }: RouterLineOptions) {
    if (secret !== undefined) this.#metadata.set('authorization', `Bearer ${secret}`);
    if (previousSecret !== undefined) this.#metadata.set('x-api-key', previousSecret);
    this.#tls = tls;
    this.#place = place;
    this.#clock = clock;
  }

  /** Probes by a health check of the process: a standby also passes it. Connects again after a failed probe. */
  async probe(timeoutMs: number): Promise<boolean> {
    if ((await this.#ask(`/${HEALTH}/Check`, NOTHING, timeoutMs)) !== undefined) return true;
    this.#disconnect();
    return false;
  }

  choose(query: ChooseQuery, onQueued: () => void): AskedCall {
    const request = encodeChooseRequest(query);
    const path = `/${ROUTER}/Choose`;
    const call = this.#connected().makeServerStreamRequest(path, toBuffer, same, request, this.#metadataOf(query));
    const decision = new Promise<ChosenWorker>((resolve, reject) => {
      call.on('data', (bytes: Buffer) => {
        try {
          const message = decodeChooseResponse(bytes);
          if (message.kind === 'decision') resolve(message.chosen);
          else onQueued();
        } catch (thrown) {
          call.cancel();
          reject(thrown);
        }
      });
      call.on('error', (error: ServiceError) => reject(failureOf(error)));
      call.on('end', () => reject(UNDECIDED));
    });
    return { decision, kill: () => call.cancel() };
  }

  #metadataOf({ traceparent }: ChooseQuery): Metadata {
    if (traceparent === undefined) return this.#metadata;
    const metadata = this.#metadata.clone();
    metadata.set('traceparent', traceparent);
    return metadata;
  }

  change(change: ReservationChangeQuery): void {
    void this.#ask(`/${ROUTER}/Release`, encodeReleaseRequest(change), CHANGE_MS_MAX); // never rejects
  }

  async explain(about: string | ChooseQuery): Promise<ExplanationRecord | undefined> {
    const answer = await this.#ask(`/${ROUTER}/Explain`, encodeExplainRequest(about), EXPLAIN_MS_MAX);
    try {
      return answer && (decodeExplainResponse(answer) as ExplanationRecord);
    } catch {
      return undefined; // another version; another router may explain
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#disconnect();
  }

  #connected(): Client {
    if (this.#client === undefined) {
      const tls = this.#tls();
      this.#client = new Client(this.#place, credentialsOf(tls), optionsOf(tls));
    }
    return this.#client;
  }

  /** Closes the connection. Calls that are running continue. */
  #disconnect(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  /** Sends one short question. Resolves with the answer; undefined if it failed or was late. */
  #ask(path: string, question: Uint8Array, timeoutMs: number): Promise<Uint8Array | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const call = this.#connected().makeUnaryRequest(path, toBuffer, same, question, this.#metadata, (_, answer) => {
        timer.cancel();
        resolve(answer);
      });
      const timer = this.#clock.after(timeoutMs, () => call.cancel());
    });
  }
}

function credentialsOf(tls: PlaneClientTls | undefined): ChannelCredentials {
  if (tls === undefined) return credentials.createInsecure();
  const { ca, cert, key, isInsecure = false } = tls;
  const [roots, privateKey, chain] = [ca, key, cert].map((pem) => (pem === undefined ? null : Buffer.from(pem)));
  return credentials.createSsl(roots, privateKey, chain, { rejectUnauthorized: !isInsecure });
}

function optionsOf(tls: PlaneClientTls | undefined): ClientOptions {
  const name = tls?.serverName;
  return name === undefined ? OPTIONS : { ...OPTIONS, 'grpc.ssl_target_name_override': name };
}

/** Returns the failure of a call. One that names its class comes from the router, one without from the connection. */
function failureOf({ metadata, details }: ServiceError): ServeError {
  const [kind] = metadata.get(ERROR_KIND_TRAILER);
  if (kind === undefined) return workerError('Disconnected', details);
  const [param] = metadata.get(ERROR_PARAM_TRAILER);
  const field = param === undefined ? {} : { param: String(param) };
  // `fromWire` accepts kinds that it does not know.
  return fromWire({ kind: String(kind) as WorkerErrorKind, message: details, ...field });
}
