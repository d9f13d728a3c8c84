import { assertNever, type ServeError } from '../../../../errors/index.ts';
import { LazyList, type TokenLogprob } from '../../../../protocol/index.ts';
import type { Inference } from '../../serve-inference.ts';
import { DONE_FRAME, isAscii, SseStream } from '../../sinks/dialect-sink.ts';
import { objectText, sendError, sendObject } from '../../sinks/send.ts';
import { itemBody, logprobBody, openedBody, textPart } from './bodies.ts';
import type { ItemObserver, OutputItem } from './output-items.ts';

/** Names of the events that carry an item's growth and its end. */
const GROWTH = {
  message: 'response.output_text',
  reasoning: 'response.reasoning_text',
  function_call: 'response.function_call_arguments',
  custom_tool_call: 'response.custom_tool_call_input',
} as const;
type GrowingKind = keyof typeof GROWTH;
const SUMMARY = 'response.reasoning_summary_text';

/** Characters of a text from which its event may be large. */
const LONG_CHARS = 64 * 1024;

const END = '}\n\n';
const NO_LOGPROBS = ',"logprobs":[]}\n\n';

type WriteFrame = (frame: string, isKnownAscii?: boolean) => void;
/** Writes an event: `lead`, the JSON text of `data`, and `end`. */
type WriteEvent = (lead: string, data: unknown, end: string) => void;

/** A delta frame in two constant pieces, around its number and its text. */
interface DeltaPieces {
  readonly head: string;
  readonly middle: string;
}

/**
 * Writes the events of one stream as text, numbered from 0. It builds once for each item what all its deltas share, so
 * a delta is five strings put together.
 */
export class ItemEvents implements ItemObserver {
  readonly #write: WriteFrame;
  readonly #writeEvent: WriteEvent;
  readonly #showsSummary: boolean;
  #sequence = 0;
  /** Whether the growth of the open item has its own events. */
  #isAnnounced = false;
  #delta: DeltaPieces = { head: '', middle: '' };
  #tail = END;
  #summaryDelta: DeltaPieces | undefined;

  /**
   * @param showsSummary whether reasoning is written a second time, as a summary
   * @param writeEvent writes events that may be large.
   * @default writes them as one frame
   */
  constructor(write: WriteFrame, showsSummary: boolean, writeEvent?: WriteEvent) {
    this.#write = write;
    this.#writeEvent = writeEvent ?? ((lead, data, end) => write(lead + JSON.stringify(data) + end));
    this.#showsSummary = showsSummary;
  }

  /** Returns an event that carries the response. `body` is JSON text. */
  response(type: string, body: string): string {
    return `${this.responseHead(type)}${body}${END}`;
  }

  /** Returns the text before the response in its event; `}` and an empty line follow the response. */
  responseHead(type: string): string {
    return `event: ${type}\ndata: {"type":"${type}","sequence_number":${this.#sequence++},"response":`;
  }

  opened(item: OutputItem): void {
    const { id: item_id, index: output_index } = item;
    this.#emit('response.output_item.added', { output_index, item: openedBody(item) });
    this.#isAnnounced = isGrowing(item);
    if (!isGrowing(item)) return;
    const isPart = item.kind === 'message' || item.kind === 'reasoning';
    if (isPart) {
      const part = item.kind === 'message' ? textPart(item) : { type: 'reasoning_text', text: '' };
      this.#emit('response.content_part.added', { item_id, output_index, content_index: 0, part });
    }
    this.#delta = deltaPieces(GROWTH[item.kind], item, isPart ? '"content_index":0,' : '');
    this.#tail = item.kind === 'message' ? NO_LOGPROBS : END;
    this.#summaryDelta = undefined;
    if (item.kind !== 'reasoning' || !this.#showsSummary) return;
    const part = { type: 'summary_text', text: '' };
    this.#emit('response.reasoning_summary_part.added', { item_id, output_index, summary_index: 0, part });
    this.#summaryDelta = deltaPieces(SUMMARY, item, '"summary_index":0,');
  }

  /** Runs for every token. */
  grew(_item: OutputItem, text: string, logprobs: readonly TokenLogprob[] | undefined): void {
    if (!this.#isAnnounced) return;
    if (text.length > LONG_CHARS && logprobs === undefined) {
      this.#grewLong(text);
      return;
    }
    const { head, middle } = this.#delta;
    const quoted = JSON.stringify(text);
    const tail = logprobs === undefined ? this.#tail : `,"logprobs":${JSON.stringify(logprobs.map(logprobBody))}${END}`;
    const isPlain = isAscii(text);
    this.#write(head + this.#sequence++ + middle + quoted + tail, isPlain && logprobs === undefined);
    const summary = this.#summaryDelta;
    if (summary !== undefined) {
      this.#write(summary.head + this.#sequence++ + summary.middle + quoted + END, isPlain);
    }
  }

  /** Writes a text that came as a whole, without log probabilities of its own. */
  #grewLong(text: string): void {
    const { head, middle } = this.#delta;
    this.#writeEvent(head + this.#sequence++ + middle, text, this.#tail);
    const summary = this.#summaryDelta;
    if (summary !== undefined) this.#writeEvent(summary.head + this.#sequence++ + summary.middle, text, END);
  }

  closed(item: OutputItem): void {
    const { index: output_index } = item;
    if (isGrowing(item)) this.#closeText(item);
    this.#emit('response.output_item.done', { output_index, item: itemBody(item, this.#showsSummary) });
  }

  #closeText(item: GrowingItem): void {
    const { kind, id: item_id, index: output_index, name, text } = item;
    const place = { item_id, output_index };
    const done = `${GROWTH[kind]}.done`;
    switch (kind) {
      case 'message': {
        const logprobs = new LazyList(item.logprobs, logprobBody);
        this.#emit(done, { ...place, content_index: 0, text, logprobs });
        this.#emit('response.content_part.done', { ...place, content_index: 0, part: textPart(item) });
        break;
      }
      case 'reasoning':
        this.#emit(done, { ...place, content_index: 0, text });
        this.#emit('response.content_part.done', {
          ...place,
          content_index: 0,
          part: { type: 'reasoning_text', text },
        });
        if (this.#showsSummary) this.#closeSummary(place, text);
        break;
      case 'function_call':
        this.#emit(done, { name, ...place, arguments: text });
        break;
      case 'custom_tool_call':
        this.#emit(done, { ...place, input: text });
        break;
      default:
        assertNever(kind);
    }
  }

  #closeSummary(place: { readonly item_id: string; readonly output_index: number }, text: string): void {
    this.#emit(`${SUMMARY}.done`, { ...place, summary_index: 0, text });
    const part = { type: 'summary_text', text };
    this.#emit('response.reasoning_summary_part.done', { ...place, summary_index: 0, part });
  }

  #emit(type: string, fields: object): void {
    this.#writeEvent(`event: ${type}\ndata: `, { type, sequence_number: this.#sequence++, ...fields }, '\n\n');
  }
}

type GrowingItem = OutputItem & { readonly kind: GrowingKind };

/**
 * Returns whether an item's text has delta events. Summaries and tool searches are written whole, when they are
 * complete.
 */
function isGrowing(item: OutputItem): item is GrowingItem {
  return Object.hasOwn(GROWTH, item.kind);
}

function deltaPieces(growth: string, { id, index }: OutputItem, place: string): DeltaPieces {
  const type = `${growth}.delta`;
  return {
    head: `event: ${type}\ndata: {"type":"${type}","sequence_number":`,
    middle: `,"item_id":"${id}","output_index":${index},${place}"delta":`,
  };
}

/** Name of the event that ends a response. */
export type FinalEvent = 'response.completed' | 'response.incomplete' | 'response.failed';

/** Destination of one response: events of a stream, or one object. All texts are JSON. */
export interface ResponseOutlet {
  /** Receives the items. */
  readonly observer: ItemObserver;
  /** Returns whether a failure must be an event of the response. */
  failsInside(error: ServeError): boolean;
  /** Whether a response without output needs an empty message. */
  readonly needsItem: boolean;
  /** Begins the response. @param body makes the first body when it is written: by then the worker is known */
  begin(body: () => string): void;
  annotate(frame: string): void;
  /** Ends the response. @returns as `sendObject` */
  finish(event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined;
  /** Refuses a response that has not begun. Returns its status. */
  refuse(error: ServeError): number;
  abandon(): void;
}

const NO_OBSERVER: ItemObserver = Object.freeze({ opened: () => {}, grew: () => {}, closed: () => {} });

/** Sends a response as one object. */
export class ObjectOutlet implements ResponseOutlet {
  readonly observer = NO_OBSERVER;
  readonly needsItem = true;
  readonly #inference: Inference;

  constructor(inference: Inference) {
    this.#inference = inference;
  }

  failsInside(): boolean {
    return false;
  }

  begin(): void {
    // the object is sent when it is complete
  }

  annotate(): void {
    // an object has no place for annotations
  }

  finish(_event: FinalEvent, body: object, nvext: Iterable<string>): Promise<void> | undefined {
    return sendObject(this.#inference, body, nvext);
  }

  refuse(error: ServeError): number {
    return sendError(this.#inference.exchange, error, this.#inference.deps.settings.overloadStatus);
  }

  abandon(): void {
    // nothing is pending
  }
}

/** Sends a response as events. */
export class StreamOutlet implements ResponseOutlet {
  readonly observer: ItemEvents;
  readonly needsItem = false;
  readonly #out: SseStream;

  constructor(inference: Inference, showsSummary: boolean) {
    const out = new SseStream(inference);
    this.#out = out;
    this.observer = new ItemEvents((frame, isKnownAscii) => out.write(frame, isKnownAscii), showsSummary);
  }

  /**
   * A failure is an event if the client has read a part of the response, or if the prompt is too long, as OpenAI does
   * it. codex shortens a conversation only after that event; a status of 400 ends its turn, and that of every retry.
   */
  failsInside({ code }: ServeError): boolean {
    return this.#out.isCommitted || code === 'context_length_exceeded';
  }

  /** Keeps both first events with the head, so that a failure before the first output still has its status. */
  begin(body: () => string): void {
    for (const event of ['response.created', 'response.in_progress']) {
      const head = this.observer.responseHead(event); // uses up the event's number
      this.#out.annotate(() => `${head}${body()}${END}`);
    }
  }

  annotate(frame: string): void {
    this.#out.annotate(frame);
  }

  finish(event: FinalEvent, body: object, nvext: Iterable<string>): undefined {
    this.#out.close(this.observer.response(event, objectText(body, nvext)) + DONE_FRAME);
  }

  refuse(error: ServeError): number {
    return this.#out.fail(error);
  }

  abandon(): void {
    this.#out.abandon();
  }
}
