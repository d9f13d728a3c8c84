import { ServeError } from '../../errors/index.ts';
import {
  BodySendMode,
  decodeMessage,
  type GrpcCall,
  GrpcStatus,
  type HttpBody,
  type HttpHeaders,
  onceRead,
  type ProcessingRequest,
  ProcessingRequestSchema,
  STATUS,
} from '../../grpc/index.ts';
import { setsOf } from '../../pipeline/index.ts';
import {
  type Decision,
  decisionMessage,
  giveBody,
  immediateMessage,
  passBody,
  passHeaders,
  passTrailers,
} from './answers.ts';
import type { PickerDeps } from './deps.ts';
import { servedBy, subsetOf } from './endpoints.ts';
import { Pick } from './pick.ts';
import { HeldBody, type ImmediateAnswer, PickExchange } from './pick-exchange.ts';
import { RequestHead } from './request-head.ts';
import { Silence } from './silence.ts';

/** Modes in which the picker can read a body before Envoy routes the request. */
const READABLE: ReadonlySet<BodySendMode> = new Set([BodySendMode.BUFFERED, BodySendMode.FULL_DUPLEX_STREAMED]);

const NOTHING = new Uint8Array(0);

/** Time for the body of a request after its head, in milliseconds: that of Node's HTTP server. */
const BODY_MS_MAX = 300_000;

/**
 * One request at Envoy, from its head until its answer has ended.
 *
 * | State | request head | request body, trailers | decision | answer of the app | response | Envoy leaves | silence |
 * |---|---|---|---|---|---|---|---|
 * | new | picking, or routed to any endpoint | refused | - | - | refused | over | call ends |
 * | picking | refused | kept | routed | over | answering; the pick is given up | over; given up | body fails |
 * | routed | refused | passed on | - | ignored | answering | over; given up | over; given up, call ends |
 * | answering | refused | passed on | ignored | ignored | passed on; at its end over | over; given up | as routed |
 * | over | refused | passed on | ignored | ignored | passed on | over | call ends |
 *
 * Without the body of the response (`response_body_mode: NONE`), a response ends with its head if it has a length.
 */
export class PickStream {
  readonly #deps: PickerDeps;
  readonly #call: GrpcCall;
  readonly #silence: Silence;
  #state: 'new' | 'picking' | 'routed' | 'answering' | 'over' = 'new';
  #requestMode = BodySendMode.FULL_DUPLEX_STREAMED;
  #responseMode = BodySendMode.FULL_DUPLEX_STREAMED;
  #body: HeldBody | undefined;
  #pick: Pick | undefined;
  #hasBody = false;
  #hasTrailers = false;
  #picked: string | undefined;
  #status = 0;
  #isClosed = false;

  constructor(deps: PickerDeps, call: GrpcCall) {
    this.#deps = deps;
    this.#call = call;
    this.#silence = new Silence(deps.clock, () => this.#silent());
    deps.metrics.opened();
    this.#expectMessage();
    call.watch({ left: () => this.#close(), late() {} }); // a late call has left, too
  }

  /** Takes the next message, once Envoy has read what was written. */
  next(): void {
    onceRead(this.#call, this.#receive);
  }

  // Fields, because a closure for each part of an answer would cost more.
  readonly #receive = (): void => this.#call.receive(this.#received);

  readonly #received = (bytes: Buffer | undefined): void => {
    if (bytes === undefined) {
      this.#close(); // Envoy has nothing more to show
      this.#call.end();
      return;
    }
    try {
      const message = decodeMessage(ProcessingRequestSchema, bytes);
      // Envoy reads no answers to what it only shows.
      if (!message.observabilityMode) this.#take(message);
      if (this.#state !== 'picking') this.#expectMessage();
    } catch (thrown) {
      this.#close();
      throw thrown; // it ends the call
    }
    this.next();
  };

  /** Waits for Envoy's next message as long as an answer may take. */
  #expectMessage(): void {
    if (!this.#isClosed) this.#silence.expect(this.#deps.silenceMsMax);
  }

  /** Ends the wait for a message that is late. The call ends without a failure, so Envoy goes on with the request. */
  #silent(): void {
    if (this.#state === 'picking') {
      this.#body?.fail(new ServeError('invalid_value', 'The request did not arrive in time', { status: 408 }));
      return;
    }
    if (this.#state === 'routed' || this.#state === 'answering') {
      this.#deps.logger.warn('a gateway tells nothing about a request for too long, so the picker forgets it', {
        endpoint: this.#picked,
        silence_ms: this.#deps.silenceMsMax,
      });
      this.#giveUp('silent');
    }
    this.#close();
    this.#call.end();
  }

  #take(message: ProcessingRequest): void {
    const { request } = message;
    switch (request.case) {
      case 'requestHeaders':
        this.#requestHead(request.value, message);
        break;
      case 'requestBody':
        this.#requestBody(request.value);
        break;
      case 'requestTrailers':
        this.#requestTrailers();
        break;
      case 'responseHeaders':
        this.#responseHead(request.value, message);
        break;
      case 'responseBody':
        this.#responseBody(request.value);
        break;
      case 'responseTrailers':
        this.#requireAnswer();
        this.#call.write(passTrailers('responseTrailers'));
        this.#end();
        break;
      default:
        throw this.#outOfOrder('a message without a known step');
    }
  }

  #requestHead({ headers, endOfStream }: HttpHeaders, message: ProcessingRequest): void {
    if (this.#state !== 'new') throw this.#outOfOrder('a second request');
    const { protocolConfig } = message;
    if (protocolConfig !== undefined) {
      this.#requestMode = protocolConfig.requestBodyMode;
      this.#responseMode = protocolConfig.responseBodyMode;
    }
    const head = new RequestHead(headers);
    const isAllowed = subsetOf(message.metadataContext?.filterMetadata ?? {});
    this.#hasBody = !endOfStream;
    if (head.method !== 'POST' || !this.#deps.app.generates(head.path)) this.#routeAnywhere(head, isAllowed);
    else if (this.#hasBody && !READABLE.has(this.#requestMode)) this.#refuseMode(head);
    else this.#startPick(head, isAllowed);
  }

  #startPick(head: RequestHead, isAllowed: (endpoint: string) => boolean): void {
    this.#state = 'picking';
    const body = new HeldBody(this.#deps.bodies);
    this.#body = body;
    if (this.#hasBody) this.#silence.expect(BODY_MS_MAX);
    else this.#bodyEnded(body);
    // Envoy sends a body that it keeps only after it may pass the headers on.
    if (this.#hasBody && this.#requestMode === BodySendMode.BUFFERED) this.#call.write(passHeaders('requestHeaders'));
    const parts = {
      head,
      body,
      isAllowed,
      onDecision: (decision: Decision) => this.#route(decision),
      onAnswer: (answer: ImmediateAnswer) => this.#answer(answer, 'answered'),
    };
    this.#pick = new Pick(this.#deps, parts);
    this.#pick.start();
  }

  #requestBody({ body, endOfStream }: HttpBody): void {
    if (this.#state === 'new') throw this.#outOfOrder('a body before its request');
    if (this.#state !== 'picking') {
      this.#passRequestBody(body, endOfStream);
      return;
    }
    this.#body?.add(body);
    if (endOfStream || this.#requestMode === BodySendMode.BUFFERED) this.#bodyEnded(this.#body);
  }

  /** Lets the app read the whole body. From now on it is Envoy that waits. */
  #bodyEnded(body: HeldBody | undefined): void {
    this.#silence.rest();
    body?.end();
  }

  #requestTrailers(): void {
    if (this.#state === 'new') throw this.#outOfOrder('trailers before their request');
    if (this.#state !== 'picking') {
      this.#call.write(passTrailers('requestTrailers'));
      return;
    }
    this.#hasTrailers = true;
    this.#bodyEnded(this.#body);
  }

  /** Sends the decision, with the body that waited for it. */
  #route(decision: Decision): void {
    if (this.#state !== 'picking') return;
    this.#state = 'routed';
    this.#picked = decision.endpoints[0];
    this.#expectMessage();
    this.#deps.metrics.ended('picked');
    const chunks = this.#body?.release() ?? [];
    const isKept = this.#requestMode === BodySendMode.BUFFERED;
    this.#call.write(decisionMessage(this.#hasBody && isKept ? 'requestBody' : 'requestHeaders', decision));
    if (!this.#hasBody || isKept) return;
    const last = chunks.length - 1;
    for (const [index, chunk] of chunks.entries())
      this.#give('requestBody', chunk, !this.#hasTrailers && index === last);
    if (last < 0 && !this.#hasTrailers) this.#give('requestBody', NOTHING, true);
    if (this.#hasTrailers) this.#call.write(passTrailers('requestTrailers'));
  }

  /** Routes a request that no model answers, such as a list of models, to any endpoint. */
  #routeAnywhere(head: RequestHead, isAllowed: (endpoint: string) => boolean): void {
    const { models, endpoints, random, metrics } = this.#deps;
    const workers = models.list().flatMap((model) => setsOf(model).flatMap((set) => set.workers));
    const open = [...new Set(workers.flatMap((worker) => endpoints.all(worker)))].filter(isAllowed);
    if (open.length === 0) {
      const error = new ServeError('service_unavailable', 'No endpoint is there for this request', {
        retryAfterMs: 1000,
      });
      this.#fail(head, error, 'answered');
      return;
    }
    const endpoint = open[random.below(open.length)] as string; // the index is below the length
    this.#state = 'routed';
    this.#picked = endpoint;
    metrics.ended('any');
    this.#call.write(decisionMessage('requestHeaders', { endpoints: [endpoint] }));
  }

  #refuseMode(head: RequestHead): void {
    const mode = BodySendMode[this.#requestMode] ?? String(this.#requestMode);
    const says = `The gateway's ext_proc filter has request_body_mode ${mode}: an endpoint picker needs FULL_DUPLEX_STREAMED or BUFFERED`;
    this.#deps.logger.warn('a request cannot be read, so no endpoint is picked', { request_body_mode: mode });
    this.#fail(head, new ServeError('internal_error', says), 'mode_refused');
  }

  #fail(head: RequestHead, error: ServeError, outcome: 'answered' | 'mode_refused'): void {
    const { app, bodies } = this.#deps;
    app.refuse(new PickExchange(head, new HeldBody(bodies), (answer) => this.#answer(answer, outcome)), error);
  }

  /** Has Envoy answer the request. */
  #answer(answer: ImmediateAnswer, outcome: 'answered' | 'mode_refused'): void {
    if (this.#state !== 'new' && this.#state !== 'picking') return;
    this.#over();
    this.#deps.metrics.ended(outcome);
    this.#call.write(immediateMessage(answer));
    this.#close();
    this.#call.end();
  }

  #responseHead({ headers, endOfStream }: HttpHeaders, message: ProcessingRequest): void {
    if (this.#state === 'new' || this.#state === 'answering') throw this.#outOfOrder('a response without its request');
    if (this.#state === 'picking') this.#giveUp('left'); // Envoy answers by itself
    if (this.#state === 'routed') this.#state = 'answering';
    const head = new RequestHead(headers);
    this.#status = Number(head.get(':status') ?? 0);
    const served = servedBy(message.metadataContext?.filterMetadata ?? {});
    const isElsewhere = served !== undefined && this.#picked !== undefined && served !== this.#picked;
    if (isElsewhere) this.#deps.metrics.servedElsewhere();
    this.#pick?.answerHead(isElsewhere);
    this.#call.write(passHeaders('responseHeaders'));
    if (endOfStream || this.#isComplete(head)) this.#end();
    else if (this.#responseMode === BodySendMode.NONE) this.#pick?.begun();
  }

  /**
   * Returns whether Envoy shows no more of a response. If it shows no body, the model has finished an answer whose head
   * has a length: only then is the length known. A stream has none, and goes on until Envoy ends the call.
   */
  #isComplete(head: RequestHead): boolean {
    return this.#responseMode === BodySendMode.NONE && head.get('content-length') !== undefined;
  }

  #responseBody({ body, endOfStream }: HttpBody): void {
    this.#requireAnswer();
    if (this.#state === 'answering') this.#pick?.answerPart(body);
    if (this.#responseMode === BodySendMode.FULL_DUPLEX_STREAMED) this.#give('responseBody', body, endOfStream);
    else this.#call.write(passBody('responseBody'));
    if (endOfStream) this.#end();
  }

  #requireAnswer(): void {
    if (this.#state === 'answering' || this.#state === 'over') return;
    throw this.#outOfOrder('a part of a response before its head');
  }

  #passRequestBody(body: Uint8Array, isLast: boolean): void {
    if (this.#requestMode === BodySendMode.FULL_DUPLEX_STREAMED) this.#give('requestBody', body, isLast);
    else this.#call.write(passBody('requestBody'));
  }

  #give(step: 'requestBody' | 'responseBody', body: Uint8Array, isLast: boolean): void {
    for (const frame of giveBody(step, body, isLast)) this.#call.write(frame);
  }

  /** Ends the request, whose answer is complete. */
  #end(): void {
    if (this.#state !== 'answering') return;
    this.#over();
    this.#pick?.end(this.#status);
  }

  /** Hears that Envoy shows no more. Gives up a request that has not ended. Idempotent. */
  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#silence.close();
    this.#deps.metrics.closed();
    // Envoy leaves after the last message that it has to show, and without the body that is the head of the answer.
    if (this.#responseMode === BodySendMode.NONE) this.#end();
    if (this.#state !== 'new' && this.#state !== 'over') this.#giveUp('left');
  }

  #giveUp(outcome: 'left' | 'silent'): void {
    this.#over();
    this.#deps.metrics.ended(outcome);
    this.#pick?.leave();
  }

  #over(): void {
    this.#state = 'over';
    this.#body?.release();
  }

  #outOfOrder(what: string): GrpcStatus {
    if (this.#state !== 'new' && this.#state !== 'over') this.#pick?.leave();
    this.#over();
    this.#deps.metrics.ended('order_refused');
    return new GrpcStatus(STATUS.INVALID_ARGUMENT, `the messages are out of order: ${what}`);
  }
}
