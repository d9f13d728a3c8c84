import { type FinishReason, type GenerationSink, mediaPart } from '../../../protocol/index.ts';
import { isRecord } from '../../../records/index.ts';

type Body = Readonly<Record<string, unknown>>;

type CallSink = Pick<GenerationSink, 'toolCall' | 'toolArguments'>;
type BodySink = CallSink & Pick<GenerationSink, 'text' | 'reasoning' | 'finish'>;

const FINISH_REASONS: ReadonlySet<unknown> = new Set<FinishReason>(['stop', 'length', 'content_filter', 'tool_calls']);

/**
 * Turns chat chunks into events, for dialects whose answers have another shape. The pipeline gives such chunks for
 * workers that take bodies untouched. Each request has a reader of its own, which reports one call after the other.
 */
export class ChatBodyReader {
  readonly #sink: BodySink;
  readonly #calls: CallOrder;

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
    if (isRecord(choice.delta)) this.#readDelta(choice.delta, index);
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

  #readDelta(said: Body, choice: number): void {
    const { reasoning_content: reasoning } = said;
    if (typeof reasoning === 'string' && reasoning !== '') {
      this.#calls.flush();
      this.#sink.reasoning(choice, reasoning);
    }
    for (const given of [said.content, said.images, said.refusal]) {
      const text = contentText(given);
      if (text === '') continue;
      this.#calls.flush();
      this.#sink.text(choice, text, 0);
    }
    if (!Array.isArray(said.tool_calls)) return;
    for (const [at, call] of said.tool_calls.entries()) if (isRecord(call)) this.#readCall(call, choice, at);
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
