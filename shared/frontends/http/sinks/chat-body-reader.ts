import { type FinishReason, type GenerationSink, mediaPart, type TokenLogprob } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';
import { readLogprobs } from './body-logprobs.ts';

type Body = Readonly<Record<string, unknown>>;

type CallSink = Pick<GenerationSink, 'toolCall' | 'toolArguments'>;
type BodySink = CallSink & Pick<GenerationSink, 'text' | 'delta' | 'reasoning' | 'finish'>;

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>(['stop', 'length', 'content_filter', 'tool_calls']);

/**
 * Turns chat chunks into events, for dialects whose answers have another shape. The pipeline gives such chunks for
 * workers that take bodies untouched. Each request has a reader of its own, which reports one call after the other.
 */
export class ChatBodyReader {
  readonly #sink: BodySink;
  readonly #calls: CallOrder;
  /** Log probabilities of tokens that made no text yet, such as the first bytes of a character. */
  #heldLogprobs: TokenLogprob[] = [];

  constructor(sink: BodySink) {
    this.#sink = sink;
    this.#calls = new CallOrder(sink);
  }

  /** Ends the answer: reports what was held back. */
  end(): void {
    this.#calls.flush();
  }

  /** Reads one chunk; a value that is not a chat body is ignored. */
  read(body: unknown): void {
    if (!isRecord(body) || !Array.isArray(body.choices)) return;
    for (const [at, choice] of body.choices.entries()) {
      if (isRecord(choice)) this.#readChoice(choice, typeof choice.index === 'number' ? choice.index : at);
    }
  }

  #readChoice(choice: Body, index: number): void {
    if (isRecord(choice.delta)) this.#readDelta(choice.delta, index, readLogprobs(choice.logprobs));
    const { finish_reason: reason, stop_reason: stopReason } = choice;
    if (!FINISH_REASONS.has(reason)) return;
    this.#calls.flush();
    this.#sink.finish({
      choice: index,
      text: '',
      tokenIds: [],
      reason: reason as FinishReason,
      // A field of engines, not of OpenAI, for the stop string or token that they found.
      ...(typeof stopReason === 'string' || typeof stopReason === 'number' ? { stopReason } : {}),
    });
  }

  #readDelta(said: Body, choice: number, logprobs: readonly TokenLogprob[]): void {
    const { reasoning_content: reasoning } = said;
    const isReasoning = typeof reasoning === 'string' && reasoning !== '';
    const calls = Array.isArray(said.tool_calls) ? said.tool_calls : [];
    // Only the tokens of the text count: clients read log probabilities as part of a message.
    if (!isReasoning && calls.length === 0) this.#heldLogprobs.push(...logprobs);
    if (isReasoning) {
      this.#calls.flush();
      this.#sink.reasoning(choice, reasoning);
    }
    for (const given of [said.content, said.images, said.refusal]) {
      const text = contentText(given);
      if (text === '') continue;
      this.#calls.flush();
      this.#tellText(choice, text);
    }
    for (const [at, call] of calls.entries()) if (isRecord(call)) this.#readCall(call, choice, at);
  }

  #tellText(choice: number, text: string): void {
    const logprobs = this.#heldLogprobs;
    if (logprobs.length === 0) {
      this.#sink.text(choice, text, 0);
      return;
    }
    this.#heldLogprobs = [];
    this.#sink.delta({ choice, text, tokenIds: [], logprobs });
  }

  #readCall(call: Body, choice: number, at: number): void {
    const index = typeof call.index === 'number' ? call.index : at;
    const called = isRecord(call.function) ? call.function : {};
    if (!this.#calls.knows(choice, index) && typeof called.name === 'string' && called.name !== '') {
      // some servers repeat id and name with every piece
      this.#calls.begin(choice, index, typeof call.id === 'string' ? call.id : `call_${index}`, called.name);
    }
    const text = called.arguments;
    if (typeof text === 'string' && text !== '') this.#calls.grow(choice, index, text);
  }
}

/** Returns content as text. Media become links of Markdown, because answers of other shapes have no place for them. */
function contentText(content: unknown): string {
  if (typeof content === 'string') return content;
  return Array.isArray(content) ? content.map(partText).join('') : '';
}

function partText(part: unknown): string {
  if (typeof part === 'string') return part;
  if (!isRecord(part)) return '';
  if (typeof part.text === 'string') return part.text;
  const medium = mediaPart(part);
  if (medium === undefined) return JSON.stringify(part);
  const [kind, url] = linkOf(medium);
  return `${kind === 'image' ? '!' : ''}[${kind}](${url})`;
}

function linkOf(medium: Body): readonly [kind: string, url: unknown] {
  const type = String(medium.type); // as `mediaPart` has it
  const source = isRecord(medium[type]) ? medium[type] : {};
  if (type === 'input_audio') return ['audio', `data:audio/${source.format};base64,${source.data}`];
  return [type.replace(/_url$/, ''), source.url];
}

interface Call {
  readonly choice: number;
  readonly index: number;
  readonly id: string;
  readonly name: string;
  /** Arguments so far. */
  text: string;
}

/**
 * Puts the pieces of tool calls in order, one call after the other, for dialects that close a call before the next one
 * opens. Workers may begin several calls at once and mix their arguments. The first call that is not whole is reported
 * as it comes. The calls behind it wait until its arguments are a JSON object, or until the answer ends.
 */
class CallOrder {
  readonly #sink: CallSink;
  readonly #known = new Set<string>();
  #current: Call | undefined;
  /** Calls that wait, in the order in which they began. */
  readonly #waiting: Call[] = [];

  constructor(sink: CallSink) {
    this.#sink = sink;
  }

  /** Returns whether the call was named before. */
  knows(choice: number, index: number): boolean {
    return this.#known.has(keyOf(choice, index));
  }

  begin(choice: number, index: number, id: string, name: string): void {
    this.#known.add(keyOf(choice, index));
    const call: Call = { choice, index, id, name, text: '' };
    if (this.#waiting.length === 0 && (this.#current === undefined || isWhole(this.#current.text))) this.#open(call);
    else this.#waiting.push(call);
  }

  grow(choice: number, index: number, text: string): void {
    const waiting = this.#waiting.find((call) => call.choice === choice && call.index === index);
    if (waiting !== undefined) {
      waiting.text += text;
      return;
    }
    this.#sink.toolArguments(choice, index, text);
    const current = this.#current;
    if (current === undefined || current.choice !== choice || current.index !== index) return;
    current.text += text;
    while (this.#waiting.length > 0 && isWhole(this.#current?.text ?? '')) this.#open(this.#waiting.shift()!);
  }

  /** Reports the calls that wait, because nothing more comes for any call. */
  flush(): void {
    for (const call of this.#waiting.splice(0)) this.#open(call);
    this.#current = undefined;
  }

  #open(call: Call): void {
    const { choice, index, id, name, text } = call;
    this.#current = call;
    this.#sink.toolCall(choice, index, id, name);
    if (text !== '') this.#sink.toolArguments(choice, index, text);
  }
}

function keyOf(choice: number, index: number): string {
  return `${choice}/${index}`;
}

/** Returns whether arguments are a JSON object. Checks their end first, which is cheap. */
function isWhole(text: string): boolean {
  if (!text.trimEnd().endsWith('}')) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false; // not JSON yet, which is not a failure
  }
}
