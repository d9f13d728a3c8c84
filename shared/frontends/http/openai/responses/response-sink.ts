import { isClientCancel, ServeError, toServeError } from '../../../../errors/index.ts';
import type {
  DecodedResponses,
  FinishReason,
  GenerationRequest,
  ServingWorkers,
  TextDelta,
  TextFinish,
  Usage,
} from '../../../../protocol/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import { DialectSink } from '../../../inference/dialect.ts';
import type { Inference } from '../../serve-inference.ts';
import { annotationFrame, preprocessorFrame } from '../../sinks/annotations.ts';
import { ChatBodyReader } from '../../sinks/chat-body-reader.ts';
import { nothingSent } from '../../sinks/dialect-sink.ts';
import type { WireNames } from '../../sinks/response-names.ts';
import { NvextFields } from '../nvext.ts';
import { incompleteReasonOf, itemBody, type ResponseState, responseBody } from './bodies.ts';
import type { FinalEvent, ResponseOutlet } from './outlets.ts';
import { OutputItems } from './output-items.ts';
import { type KeptInput, keep } from './response-keeper.ts';

type Recorded = Pick<StoredResponse, 'response' | 'pieces'>;

/** The request of a response, and how to write it. */
export interface ResponseSinkParts {
  readonly inference: Inference;
  readonly decoded: DecodedResponses;
  readonly names: WireNames;
  /** Id under which the response is stored. Its items are named after it. */
  readonly storedId: string;
  readonly outlet: ResponseOutlet;
  /** Input to store with the response; undefined when the response is not stored. */
  readonly kept: KeptInput | undefined;
  /** Returns the body that the client reads for a state. @default a response object */
  readonly compose?: (state: ResponseState) => JsonObject;
}

/**
 * Writes one request's response in the Responses dialect. The same events make the stream and the object.
 *
 * | State | event | end | failure | cancel | client gone |
 * |---|---|---|---|---|---|
 * | open | to the items | closing | over: `failed`, or a status | closing, as `cancelled` | over |
 * | closing (being stored) | - | - | - | - | over: stored all the same |
 * | over | ignored | ignored | ignored | ignored | ignored |
 */
export class ResponseSink extends DialectSink<Inference> {
  readonly #parts: ResponseSinkParts;
  readonly #items: OutputItems;
  readonly #outlet: ResponseOutlet;
  readonly #nvext: NvextFields | undefined;
  #bodies: ChatBodyReader | undefined;
  #reason: FinishReason | null | undefined;
  #stopReason: string | number | undefined;
  /** The body of a response that is complete or cancelled. */
  #final: JsonObject | undefined;
  #isAbandoned = false;
  /** Resolves with the response when it is over; undefined if the request leaves no response. */
  readonly recorded: Promise<Recorded | undefined>;
  #tellRecorded: (recorded: Recorded | undefined) => void = () => {};

  constructor(parts: ResponseSinkParts) {
    const { inference, decoded, storedId, outlet } = parts;
    super(inference);
    this.#parts = parts;
    this.#outlet = outlet;
    this.recorded = new Promise((resolve) => {
      this.#tellRecorded = resolve;
    });
    this.#items = new OutputItems(storedId, decoded, outlet.observer);
    this.#nvext = NvextFields.for(decoded.request, inference);
    this.#begin(decoded.request);
  }

  /** Whether the result is a response that has an id. A compaction is not one. */
  get isResponse(): boolean {
    return this.#parts.compose === undefined;
  }

  /** Runs for every token. */
  override text(_choice: number, text: string): void {
    if (!this.isOver && text !== '') this.#items.text(text);
  }

  override delta({ text, logprobs }: TextDelta): void {
    if (this.isOver) return;
    if (text !== '' || (logprobs !== undefined && logprobs.length > 0)) this.#items.text(text, logprobs);
  }

  override finish({ text, logprobs, reason, stopReason }: TextFinish): void {
    if (this.isOver) return;
    if (text !== '') this.#items.text(text, logprobs);
    this.#reason = reason;
    this.#stopReason = stopReason;
  }

  override reasoning(_choice: number, text: string): void {
    if (!this.isOver && text !== '') this.#items.reasoning(text);
  }

  override toolCall(_choice: number, index: number, id: string, name: string): void {
    if (!this.isOver) this.#items.call(index, id, name);
  }

  override toolArguments(_choice: number, index: number, text: string): void {
    if (this.isOver) return;
    try {
      this.#items.callText(index, text);
    } catch (thrown) {
      this.fail(toServeError(thrown)); // a sink must not throw
    }
  }

  override annotation(name: string, value: string): void {
    if (!this.isOver) this.#outlet.annotate(preprocessorFrame(name, value));
  }

  override worker(workers: ServingWorkers): void {
    this.#nvext?.worker(workers);
  }

  override engineData(data: Readonly<Record<string, unknown>>): void {
    this.#nvext?.engineData(data);
  }

  override body(body: unknown): void {
    if (this.isOver) return;
    this.#bodies ??= new ChatBodyReader(this);
    this.#bodies.read(body);
  }

  end(usage: Usage, finished: boolean): void {
    if (this.isOver) return;
    this.#bodies?.end();
    const hasFinished = finished || this.#reason !== undefined;
    if (!hasFinished && this.#items.all.length === 0) {
      this.fail(nothingSent());
      return;
    }
    const incompleteReason = incompleteReasonOf(this.#reason);
    const isCut = incompleteReason !== undefined || !hasFinished;
    if (this.#parts.decoded.compacts) {
      if (!this.#items.all.some(({ text }) => text.trim() !== '')) {
        this.fail(new ServeError('bad_worker_response', 'The model wrote no summary'));
        return;
      }
    } else if (this.#outlet.needsItem && this.#items.all.length === 0) this.#items.openEmptyMessage();
    this.#items.close(isCut ? 'incomplete' : 'completed');
    this.close();
    const state: ResponseState = {
      status: isCut ? 'incomplete' : 'completed',
      output: this.#output(),
      usage,
      ...(isCut ? {} : { completedAt: this.#nowSeconds() }),
      ...(incompleteReason === undefined ? {} : { incompleteReason }),
    };
    this.#conclude(isCut ? 'response.incomplete' : 'response.completed', state, () => this.inference.succeed(usage));
  }

  /** Ends a request that a client asked to cancel as a response with that status, not as a failure. */
  protected tell(given: ServeError): void {
    const error = withInputParam(given);
    if (isClientCancel(error) && !this.#parts.decoded.compacts)
      this.#cancelled(error); // half a summary is useless
    else if (this.#outlet.failsInside(error)) this.#failInside(error);
    else this.inference.fail(error, this.#outlet.refuse(error));
  }

  /** Returns the response as it is now. */
  snapshot(): JsonObject {
    return this.#final ?? this.#body({ status: 'in_progress', output: this.#output() });
  }

  override abandon(): void {
    this.#isAbandoned = true;
    super.abandon();
    this.#outlet.abandon();
  }

  protected override close(): boolean {
    if (!super.close()) return false;
    // By the next turn the end is known, and with it the last state.
    queueMicrotask(() => this.#tellRecorded(this.#final === undefined ? undefined : this.#recorded(this.#final)));
    return true;
  }

  #failInside(error: ServeError): void {
    this.#items.close('incomplete');
    const body = this.#body({ status: 'failed', output: this.#output(), error });
    this.#final = body;
    void this.#writeFinal('response.failed', body); // the last event of a stream, sent at once
    const { kept } = this.#parts;
    this.inference.fail(error, 200);
    // `keep` logs its own failure, and no client waits until a failed response is stored
    if (kept !== undefined && kept.memory === undefined) void keep(this.inference.deps, kept, this.#recorded(body));
  }

  #cancelled(error: ServeError): void {
    this.#items.close('incomplete');
    const state: ResponseState = { status: 'cancelled', output: this.#output() };
    this.#conclude('response.incomplete', state, () => this.inference.fail(error, 200));
  }

  #begin(request: GenerationRequest): void {
    if (request.annotations.includes('request_id')) {
      this.#outlet.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
    this.#outlet.begin(() => JSON.stringify(this.#body({ status: 'in_progress', output: [] })));
  }

  /** Stores the response if the client wants that, then sends the client its end. */
  #conclude(event: FinalEvent, state: ResponseState, settle: () => void): void {
    const { kept } = this.#parts;
    const body = this.#body(state);
    this.#final = body;
    const finish = (told: JsonObject): Promise<void> | undefined => {
      const written = this.#isAbandoned ? undefined : this.#writeFinal(event, told);
      if (written !== undefined) return written.then(settle);
      settle();
      return undefined;
    };
    // The store comes before the last event: a client may name the response as soon as it has read that event.
    const finished =
      kept === undefined
        ? finish(body)
        : keep(this.inference.deps, kept, this.#recorded(body)).then((isKept) =>
            finish(isKept ? body : { ...body, store: false }),
          );
    finished?.catch((thrown: unknown) => this.inference.refuse(toServeError(thrown)));
  }

  #body(state: ResponseState): JsonObject {
    const { compose, names, decoded } = this.#parts;
    return compose?.(state) ?? responseBody(names, decoded.echo, state);
  }

  /** Returns the response, with the lengths of its pieces if the client read them one by one. */
  #recorded(response: JsonObject): Recorded {
    if (!this.#parts.decoded.request.stream) return { response };
    return { response, pieces: this.#items.all.map(({ pieces }) => pieces) };
  }

  /** Ends the client's response with `body`. The body gets `nvext` if the client asked for it. */
  #writeFinal(event: FinalEvent, body: JsonObject): Promise<void> | undefined {
    const nvext = this.#nvext?.pieces({ tokenIds: [], finish: { stopReason: this.#stopReason } }) ?? [];
    return this.#outlet.finish(event, body, nvext);
  }

  #output(): readonly unknown[] {
    return this.#items.all.map((item) => itemBody(item, this.#parts.decoded.showsSummary));
  }

  #nowSeconds(): number {
    return Math.floor(this.inference.deps.clock.wallMs() / 1000);
  }
}

/** Returns a failure of the chat that workers get, such as of a medium in its messages, as a failure of `input`. */
function withInputParam(error: ServeError): ServeError {
  const { code, message, param, cause, retryAfterMs, assertedStatus: status, worker, limit } = error;
  if (param === undefined || !/^messages\b/.test(param)) return error;
  return new ServeError(code, message, { param: 'input', cause, retryAfterMs, status, worker, limit });
}
