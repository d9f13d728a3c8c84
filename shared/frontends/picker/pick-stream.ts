import { openAiErrorBody, ServeError } from '../../errors/index.ts';
import {
  BodySendMode,
  decodeMessage,
  type GrpcCall,
  GrpcStatus,
  type HttpBody,
  type HttpHeaders,
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
import { HeldBody, type ImmediateAnswer } from './pick-exchange.ts';
import { RequestHead } from './request-head.ts';

/** Modes in which the picker can read a body before Envoy routes the request. */
const READABLE: ReadonlySet<BodySendMode> = new Set([BodySendMode.BUFFERED, BodySendMode.FULL_DUPLEX_STREAMED]);

const NOTHING = new Uint8Array(0);

/**
 * One request at Envoy, from its head until its answer has ended.
 *
 * | State | request head | request body, trailers | decision | answer of the app | response | Envoy leaves |
 * |---|---|---|---|---|---|---|
 * | new | picking, or routed to any endpoint | refused | - | - | refused | over |
 * | picking | refused | kept | routed | over | answering; the pick is given up | over; given up |
 * | routed | refused | passed on | - | ignored | answering | over; given up |
 * | answering | refused | passed on | ignored | ignored | passed on; at its end over | over; given up |
 * | over | refused | passed on | ignored | ignored | passed on | over |
 */
export class PickStream {
  readonly #deps: PickerDeps;
  readonly #call: GrpcCall;
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
    deps.metrics.opened();
    call.watch({ left: () => this.#close(), late() {} }); // a late call has left, too
  }

  /** Takes the next message, once Envoy has read what was written. */
  next(): void {
    const call = this.#call;
    if (call.isOver) return;
    if (call.isBlocked()) {
      call.onUnblocked(() => this.next());
      return;
    }
    call.receive((bytes) => {
      if (bytes === undefined) {
        this.#halfClosed();
        return;
      }
      try {
        const message = decodeMessage(ProcessingRequestSchema, bytes);
        // Envoy reads no answers to what it only shows.
        if (!message.observabilityMode) this.#take(message);
      } catch (thrown) {
        this.#close();
        throw thrown; // it ends the call
      }
      this.next();
    });
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
    if (head.method !== 'POST' || !this.#deps.app.generates(head.path)) this.#routeAnywhere(isAllowed);
    else if (this.#hasBody && !READABLE.has(this.#requestMode)) this.#refuseMode();
    else this.#startPick(head, isAllowed);
  }

  #startPick(head: RequestHead, isAllowed: (endpoint: string) => boolean): void {
    this.#state = 'picking';
    const body = new HeldBody(this.#deps.bodies);
    this.#body = body;
    if (!this.#hasBody) body.end();
    // Envoy sends a body that it keeps only after it may pass the headers on.
    else if (this.#requestMode === BodySendMode.BUFFERED) this.#call.write(passHeaders('requestHeaders'));
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
    if (endOfStream || this.#requestMode === BodySendMode.BUFFERED) this.#body?.end();
  }

  #requestTrailers(): void {
    if (this.#state === 'new') throw this.#outOfOrder('trailers before their request');
    if (this.#state !== 'picking') {
      this.#call.write(passTrailers('requestTrailers'));
      return;
    }
    this.#hasTrailers = true;
    this.#body?.end();
  }

  /** Sends the decision, with the body that waited for it. */
  #route(decision: Decision): void {
    if (this.#state !== 'picking') return;
    this.#state = 'routed';
    this.#picked = decision.endpoints[0];
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
  #routeAnywhere(isAllowed: (endpoint: string) => boolean): void {
    const { models, endpoints, random, metrics } = this.#deps;
    const workers = models.list().flatMap((model) => setsOf(model).flatMap((set) => set.workers));
    const open = [...new Set(workers.flatMap((worker) => endpoints.of(worker) ?? []))].filter(isAllowed);
    if (open.length === 0) {
      const error = new ServeError('service_unavailable', 'No endpoint is there for this request', {
        retryAfterMs: 1000,
      });
      this.#fail(error, 'answered');
      return;
    }
    const endpoint = open[random.below(open.length)] as string; // the index is below the length
    this.#state = 'routed';
    this.#picked = endpoint;
    metrics.ended('any');
    this.#call.write(decisionMessage('requestHeaders', { endpoints: [endpoint] }));
  }

  #refuseMode(): void {
    const mode = BodySendMode[this.#requestMode] ?? String(this.#requestMode);
    const says = `The gateway's ext_proc filter has request_body_mode ${mode}: an endpoint picker needs FULL_DUPLEX_STREAMED or BUFFERED`;
    this.#deps.logger.warn('a request cannot be read, so no endpoint is picked', { request_body_mode: mode });
    this.#fail(new ServeError('internal_error', says), 'mode_refused');
  }

  #fail(error: ServeError, outcome: 'answered' | 'mode_refused'): void {
    const body = Buffer.from(JSON.stringify(openAiErrorBody(error)));
    this.#answer({ status: error.status, headers: { 'content-type': 'application/json' }, body }, outcome);
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
    if (this.#state === 'picking') this.#giveUp(); // Envoy answers by itself
    if (this.#state === 'routed') this.#state = 'answering';
    this.#status = Number(new RequestHead(headers).get(':status') ?? 0);
    const served = servedBy(message.metadataContext?.filterMetadata ?? {});
    if (served !== undefined && this.#picked !== undefined && served !== this.#picked) {
      this.#deps.metrics.servedElsewhere();
    }
    this.#call.write(passHeaders('responseHeaders'));
    if (endOfStream) this.#end();
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

  /** Hears that Envoy sends nothing more. It may show the answer's head and not its body. */
  #halfClosed(): void {
    const isWithoutBody = this.#responseMode === BodySendMode.NONE;
    if (this.#state === 'answering' && isWithoutBody) this.#end();
    this.#close();
    this.#call.end();
  }

  /** Gives up a request that has not ended. Idempotent. */
  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#deps.metrics.closed();
    if (this.#state !== 'new' && this.#state !== 'over') this.#giveUp();
  }

  #giveUp(): void {
    this.#over();
    this.#deps.metrics.ended('left');
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
