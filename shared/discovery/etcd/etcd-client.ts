import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf';
import { type ClientDuplexStream, Metadata } from '@grpc/grpc-js';
import type { Clock } from '../../clock/index.ts';
import { withDeadline } from '../../concurrency/index.ts';
import {
  AuthenticateRequestSchema,
  AuthenticateResponseSchema,
  DeleteRangeRequestSchema,
  decodeMessage,
  type EtcdHeader,
  encodeMessage,
  HeaderResponseSchema,
  LeaseGrantRequestSchema,
  LeaseGrantResponseSchema,
  LeaseKeepAliveRequestSchema,
  LeaseKeepAliveResponseSchema,
  LeaseRevokeRequestSchema,
  PutRequestSchema,
  RangeRequestSchema,
  RangeResponseSchema,
  STATUS,
  TxnRequestSchema,
  TxnResponseSchema,
  WatchRequestSchema,
  WatchResponseSchema,
} from '../../grpc/index.ts';
import { EtcdFailure, toFailure } from './etcd-errors.ts';
import { MemberLine } from './member-line.ts';
import type { EtcdPlace } from './options.ts';
import { StoreHistory } from './store-history.ts';

/** A method of etcd, with its messages. */
interface Method<Request extends DescMessage, Response extends DescMessage> {
  readonly path: string;
  readonly request: Request;
  readonly response: Response;
}

function method<Request extends DescMessage, Response extends DescMessage>(
  path: string,
  request: Request,
  response: Response,
): Method<Request, Response> {
  return { path: `/etcdserverpb.${path}`, request, response };
}

/** Methods that answer once. */
export const ASK = {
  range: method('KV/Range', RangeRequestSchema, RangeResponseSchema),
  put: method('KV/Put', PutRequestSchema, HeaderResponseSchema),
  delete: method('KV/DeleteRange', DeleteRangeRequestSchema, HeaderResponseSchema),
  transact: method('KV/Txn', TxnRequestSchema, TxnResponseSchema),
  grant: method('Lease/LeaseGrant', LeaseGrantRequestSchema, LeaseGrantResponseSchema),
  revoke: method('Lease/LeaseRevoke', LeaseRevokeRequestSchema, HeaderResponseSchema),
} as const;

/** Methods with a stream of messages in each direction. */
export const STREAM = {
  watch: method('Watch/Watch', WatchRequestSchema, WatchResponseSchema),
  keepAlive: method('Lease/LeaseKeepAlive', LeaseKeepAliveRequestSchema, LeaseKeepAliveResponseSchema),
} as const;

const AUTHENTICATE = method('Auth/Authenticate', AuthenticateRequestSchema, AuthenticateResponseSchema);

/** A response. Its header says which cluster answered, and how far its history goes. */
interface Answer {
  readonly header?: EtcdHeader | undefined;
}

/** A stream that is open. */
export interface OpenStream<Message> {
  send(message: Message): void;
  /** Ends the stream. `ended` is not called any more. */
  cancel(): void;
  /** Ends it because the member does not answer: another one is asked from now on. */
  abandon(): void;
}

/** Time limit of one attempt at one member. */
const ATTEMPT_MS_MAX = 2000;

export interface EtcdClientOptions extends EtcdPlace {
  readonly clock: Clock;
}

/**
 * Client of an etcd cluster: asks one member, and goes on to the next if it is away, slow or of another cluster. Sends
 * each question to each member at most once, so the caller decides whether to try again.
 */
export class EtcdClient {
  readonly endpoints: readonly string[];
  readonly #options: EtcdClientOptions;
  readonly #history: StoreHistory;
  #at = 0; // index of the member that is asked
  #line: MemberLine | undefined;
  #token: Promise<string | undefined> | undefined;
  #isClosed = false;

  constructor(options: EtcdClientOptions) {
    this.#options = options;
    this.endpoints = options.endpoints;
    this.#history = new StoreHistory(options.endpoints.length);
  }

  /** Number of times that the cluster has lost its history. */
  get losses(): number {
    return this.#history.losses;
  }

  /** Asks once. @throws EtcdFailure, DiscoveryError for broken certificates, or the reason of the signal */
  async ask<Request extends DescMessage, Response extends DescMessage>(
    asked: Method<Request, Response>,
    request: MessageInitShape<Request>,
    signal: AbortSignal,
  ): Promise<MessageShape<Response>> {
    for (let attempts = 1; ; attempts++) {
      signal.throwIfAborted();
      const line = this.#current();
      const [at, passed] = [this.#at, this.#history.reached];
      try {
        const answer = await this.#askMember(line, asked, request, signal);
        this.#history.note(at, (answer as Answer).header, passed);
        return answer;
      } catch (thrown) {
        signal.throwIfAborted();
        const failure = toFailure(thrown);
        if (!(failure instanceof EtcdFailure && failure.isOfMember)) throw failure;
        this.leave(line);
        if (attempts >= this.endpoints.length) throw failure;
      }
    }
  }

  /**
   * Opens a stream to the member that is asked now. The member ends it if it has lost its leader.
   * @param hear called with each message
   * @param ended called once if the stream breaks
   */
  async open<Request extends DescMessage, Response extends DescMessage>(
    opened: Method<Request, Response>,
    hear: (message: MessageShape<Response>) => void,
    ended: (failure: Error) => void,
    signal: AbortSignal,
  ): Promise<OpenStream<MessageInitShape<Request>>> {
    const token = await this.#tokenOf(this.#current(), signal);
    const line = this.#current();
    const at = this.#at;
    let isOver = false;
    const end = (thrown: unknown): void => {
      if (isOver) return;
      isOver = true;
      call.cancel();
      const failure = toFailure(thrown);
      if (failure instanceof EtcdFailure && failure.needsToken) this.#token = undefined;
      this.leave(line);
      ended(failure);
    };
    const call = line.stream(opened.path, metadataOf(token)) as ClientDuplexStream<Uint8Array, Buffer>;
    call.on('error', end);
    call.on('end', () => end(new EtcdFailure(STATUS.UNAVAILABLE, 'the member ended the stream')));
    call.on('data', (bytes: Buffer) => {
      if (isOver) return;
      try {
        const message = decodeMessage(opened.response, bytes);
        this.#history.note(at, (message as Answer).header);
        hear(message);
      } catch (thrown) {
        end(thrown);
      }
    });
    const cancel = (): void => {
      isOver = true;
      call.cancel();
    };
    return {
      send: (message) => {
        if (!isOver) call.write(encodeMessage(opened.request, message));
      },
      cancel,
      abandon: () => {
        cancel();
        this.leave(line);
      },
    };
  }

  /** Asks the next member from now on, if `line` is the current one. Streams of the member go on until they fail. */
  leave(line: MemberLine): void {
    if (this.#line !== line) return;
    this.#line = undefined;
    this.#at = (this.#at + 1) % this.endpoints.length;
    line.close();
  }

  /** Lets calls end, and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    this.#line?.close();
    this.#line = undefined;
  }

  #current(): MemberLine {
    if (this.#isClosed) throw new EtcdFailure(STATUS.CANCELLED, 'the client of etcd was closed');
    this.#line ??= new MemberLine(this.endpoints[this.#at] as string, this.#options); // the index is within
    return this.#line;
  }

  async #askMember<Request extends DescMessage, Response extends DescMessage>(
    line: MemberLine,
    { path, request: schema, response }: Method<Request, Response>,
    request: MessageInitShape<Request>,
    signal: AbortSignal,
  ): Promise<MessageShape<Response>> {
    const bytes = encodeMessage(schema, request);
    const ask = async (): Promise<MessageShape<Response>> => {
      const token = await this.#tokenOf(line, signal);
      const answer = await this.#limited(signal, (limited) => line.ask(path, bytes, metadataOf(token), limited));
      return decodeMessage(response, answer);
    };
    try {
      return await ask();
    } catch (thrown) {
      const failure = toFailure(thrown);
      const isTokenOld = failure instanceof EtcdFailure && failure.needsToken;
      if (!isTokenOld || this.#options.username === undefined) throw failure;
      this.#token = undefined; // tokens end after some minutes without a call
      return ask();
    }
  }

  /** Returns the token of this client; undefined without a user, or if the cluster asks for none. */
  async #tokenOf(line: MemberLine, signal: AbortSignal): Promise<string | undefined> {
    const { username: name, password = '' } = this.#options;
    if (name === undefined) return undefined;
    this.#token ??= this.#authenticate(line, name, password, signal);
    const token = this.#token;
    try {
      return await token;
    } catch (thrown) {
      if (this.#token === token) this.#token = undefined;
      throw thrown;
    }
  }

  async #authenticate(line: MemberLine, name: string, password: string, signal: AbortSignal) {
    const bytes = encodeMessage(AUTHENTICATE.request, { name, password });
    try {
      const answer = await this.#limited(signal, (limited) =>
        line.ask(AUTHENTICATE.path, bytes, metadataOf(undefined), limited),
      );
      return decodeMessage(AUTHENTICATE.response, answer).token;
    } catch (thrown) {
      const failure = toFailure(thrown);
      if (failure instanceof EtcdFailure && failure.isAuthOff) return undefined;
      throw failure;
    }
  }

  #limited<T>(signal: AbortSignal, work: (limited: AbortSignal) => Promise<T>): Promise<T> {
    const lateMessage = `no answer within ${ATTEMPT_MS_MAX} ms`;
    return withDeadline({ clock: this.#options.clock, timeoutMs: ATTEMPT_MS_MAX, signal, lateMessage }, work);
  }
}

/** Streams end if their member loses its leader, instead of telling nothing. */
function metadataOf(token: string | undefined): Metadata {
  const metadata = new Metadata();
  metadata.set('hasleader', 'true');
  if (token !== undefined) metadata.set('token', token);
  return metadata;
}
