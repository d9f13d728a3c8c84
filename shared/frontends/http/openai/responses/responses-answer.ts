import { assertNever, isClientCancel, ServeError, toServeError } from '../../../../errors/index.ts';
import type {
  FinishReason,
  GenerationEvent,
  GenerationRequest,
  GenerationSink,
  TokenLogprob,
  Usage,
} from '../../../../protocol/generation/index.ts';
import type { DecodedResponses } from '../../../../protocol/openai/index.ts';
import type { JsonObject, StoredResponse } from '../../../../responses/index.ts';
import { statusOf } from '../../answers/answer.ts';
import type { Abandonable, InferenceCall } from '../../inference-call.ts';
import { annotationFrame, preprocessorFrame } from '../annotation-frame.ts';
import { ChatBodyReader } from '../chat-body-reader.ts';
import { NvextAnswer } from '../nvext-answer.ts';
import type { WireNames } from '../wire-names.ts';
import { itemBody } from './item-body.ts';
import { OutputItems } from './output-items.ts';
import { incompleteReasonOf, type ResponseState, responseBody } from './response-body.ts';
import { type KeptInput, keep } from './response-keeper.ts';
import type { FinalEvent, ResponsesOutlet } from './responses-unary.ts';

type SaidEvent = Extract<GenerationEvent, { readonly kind: 'delta' | 'finish' }>;

type Recorded = Pick<StoredResponse, 'response' | 'pieces'>;

/** What an answer is made with. */
export interface ResponsesAnswerParts {
  readonly call: InferenceCall;
  readonly decoded: DecodedResponses;
  readonly names: WireNames;
  readonly outlet: ResponsesOutlet;
  /** Undefined when the answer is not stored. */
  readonly kept: KeptInput | undefined;
  /** Runs once, when the answer is over in any way. */
  readonly onOver: () => void;
  /** What the client is told of a state. @default a response object */
  readonly compose?: (state: ResponseState) => JsonObject;
}

/**
 * One request's answer in the Responses dialect: the same events make the stream and the object.
 *
 * | State | event | end | failure | cancel | client gone |
 * |---|---|---|---|---|---|
 * | open | to the items | closing | over: `failed`, or a status | closing, as `cancelled` | over |
 * | closing (being stored) | - | - | - | - | over: stored all the same |
 * | over | ignored | ignored | ignored | ignored | ignored |
 */
export class ResponsesAnswer implements GenerationSink, Abandonable {
  readonly #parts: ResponsesAnswerParts;
  readonly #items: OutputItems;
  readonly #outlet: ResponsesOutlet;
  readonly #nvext: NvextAnswer | undefined;
  #bodies: ChatBodyReader | undefined;
  #reason: FinishReason | null | undefined;
  #stopReason: string | number | undefined;
  /** The body of an answer that is complete or cancelled. */
  #final: JsonObject | undefined;
  #isOver = false;
  #isAbandoned = false;
  /** The answer once it is over; undefined when there is none. */
  readonly recorded: Promise<Recorded | undefined>;
  #tellRecorded: (recorded: Recorded | undefined) => void = () => {};

  constructor(parts: ResponsesAnswerParts) {
    const { call, decoded, names, outlet } = parts;
    this.#parts = parts;
    this.#outlet = outlet;
    this.recorded = new Promise((resolve) => {
      this.#tellRecorded = resolve;
    });
    this.#items = new OutputItems(names.id, decoded, outlet.observer);
    this.#nvext = NvextAnswer.for(decoded.request, call);
    this.#begin(decoded.request);
  }

  /** The hot path. */
  text(_choice: number, text: string): void {
    if (!this.#isOver && text !== '') this.#items.text(text);
  }

  event(event: GenerationEvent): void {
    if (this.#isOver) return;
    switch (event.kind) {
      case 'delta':
      case 'finish':
        this.#say(event);
        return;
      case 'reasoning':
        if (event.text !== '') this.#items.reasoning(event.text);
        return;
      case 'tool-call':
        this.#items.call(event.index, event.id, event.name);
        return;
      case 'tool-arguments':
        this.#growCall(event.index, event.text);
        return;
      case 'annotation':
        this.#outlet.annotate(preprocessorFrame(event.name, event.value));
        return;
      case 'worker':
        this.#nvext?.worker(event);
        return;
      case 'engine-data':
        this.#nvext?.engineData(event.data);
        return;
      case 'body':
        this.#bodies ??= new ChatBodyReader(this);
        this.#bodies.read(event.body);
        return;
      default:
        assertNever(event);
    }
  }

  end(usage: Usage, finished: boolean): void {
    if (this.#isOver) return;
    this.#bodies?.end();
    const hasFinished = finished || this.#reason !== undefined;
    if (!hasFinished && this.#items.all.length === 0) {
      this.fail(new ServeError('internal_error', 'Internal server error', { cause: 'the worker sent nothing' }));
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
    this.#over();
    const state: ResponseState = {
      status: isCut ? 'incomplete' : 'completed',
      output: this.#output(),
      usage,
      ...(isCut ? {} : { completedAt: this.#nowSeconds() }),
      ...(incompleteReason === undefined ? {} : { incompleteReason }),
    };
    this.#conclude(isCut ? 'response.incomplete' : 'response.completed', state, () => this.#parts.call.succeed(usage));
  }

  /** A request that somebody asked to cancel ends as a response with that status, not as a failure. */
  fail(thrown: ServeError): void {
    if (this.#isOver) return;
    const error = thrown instanceof ServeError ? thrown : toServeError(thrown);
    if (isClientCancel(error) && !this.#parts.decoded.compacts)
      this.#cancelled(error); // half a summary is none
    else if (this.#outlet.isBegun) this.#failBegun(error);
    else this.#refuse(error);
  }

  /** The response as it stands. */
  snapshot(): JsonObject {
    return this.#final ?? this.#body({ status: 'in_progress', output: this.#output() });
  }

  abandon(): void {
    this.#isAbandoned = true;
    this.#over();
    this.#outlet.abandon();
  }

  isBlocked(): boolean {
    return this.#parts.call.exchange.sink.isBlocked();
  }

  onUnblocked(callback: () => void): void {
    this.#parts.call.exchange.sink.onUnblocked(callback);
  }

  #refuse(error: ServeError): void {
    const { call } = this.#parts;
    this.#over();
    this.#outlet.refuse(error);
    call.fail(error, statusOf(error, call.deps.settings.overloadStatus));
  }

  #failBegun(error: ServeError): void {
    this.#items.close('incomplete');
    this.#over();
    const body = this.#body({ status: 'failed', output: this.#output(), error });
    this.#final = body;
    void this.#tell('response.failed', body); // a stream's last event: at once
    const { call, kept } = this.#parts;
    call.fail(error, 200);
    if (kept !== undefined) void keep(call.deps, kept, this.#recorded(body)); // tells of its own failure; nobody waits for a failed answer
  }

  #cancelled(error: ServeError): void {
    this.#items.close('incomplete');
    this.#over();
    const state: ResponseState = { status: 'cancelled', output: this.#output() };
    this.#conclude('response.incomplete', state, () => this.#parts.call.fail(error, 200));
  }

  #begin(request: GenerationRequest): void {
    if (request.annotations.includes('request_id')) {
      this.#outlet.annotate(annotationFrame('request_id', JSON.stringify(request.id)));
    }
    this.#outlet.begin(JSON.stringify(this.#body({ status: 'in_progress', output: [] })));
  }

  #say(event: SaidEvent): void {
    const { text, logprobs } = event;
    if (text !== '' || (event.kind === 'delta' && hasAny(logprobs))) this.#items.text(text, logprobs);
    if (event.kind === 'delta') return;
    this.#reason = event.reason;
    this.#stopReason = event.stopReason;
  }

  #growCall(index: number, text: string): void {
    try {
      this.#items.callText(index, text);
    } catch (thrown) {
      this.fail(toServeError(thrown)); // a sink must not throw
    }
  }

  /** Stores the answer if it is to be stored, then tells the client how it ended. */
  #conclude(event: FinalEvent, state: ResponseState, settle: () => void): void {
    const { call, kept } = this.#parts;
    const body = this.#body(state);
    this.#final = body;
    const finish = (told: JsonObject): Promise<void> | undefined => {
      const written = this.#isAbandoned ? undefined : this.#tell(event, told);
      if (written !== undefined) return written.then(settle);
      settle();
      return undefined;
    };
    // First the store, then the last event: a client may name the response as soon as it has read that.
    const finished =
      kept === undefined
        ? finish(body)
        : keep(call.deps, kept, this.#recorded(body)).then((isKept) =>
            finish(isKept ? body : { ...body, store: false }),
          );
    finished?.catch((thrown: unknown) => call.refuse(toServeError(thrown)));
  }

  #body(state: ResponseState): JsonObject {
    const { compose, names, decoded } = this.#parts;
    return compose?.(state) ?? responseBody(names, decoded.echo, state);
  }

  /** The answer, with the lengths of its pieces where the client was told them one by one. */
  #recorded(response: JsonObject): Recorded {
    if (!this.#parts.decoded.request.stream) return { response };
    return { response, pieces: this.#items.all.map(({ pieces }) => pieces) };
  }

  /** Ends what the client reads with `body`, and `nvext` in it if that was asked for. */
  #tell(event: FinalEvent, body: JsonObject): Promise<void> | undefined {
    const nvext = this.#nvext?.pieces({ tokenIds: [], finish: { stopReason: this.#stopReason } }) ?? [];
    return this.#outlet.finish(event, body, nvext);
  }

  #output(): readonly unknown[] {
    return this.#items.all.map((item) => itemBody(item, this.#parts.decoded.showsSummary));
  }

  #nowSeconds(): number {
    return Math.floor(this.#parts.call.deps.clock.wallMs() / 1000);
  }

  #over(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#parts.onOver();
    // By the next turn the end is known, and with it the last state.
    queueMicrotask(() => this.#tellRecorded(this.#final === undefined ? undefined : this.#recorded(this.#final)));
  }
}

function hasAny(logprobs: readonly TokenLogprob[] | undefined): boolean {
  return logprobs !== undefined && logprobs.length > 0;
}
