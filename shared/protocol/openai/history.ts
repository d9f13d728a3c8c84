import type { ChatMessage } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { strictArguments } from './call-arguments.ts';
import { type ResultTurn, readAssistant, readResult, readUser } from './history-messages.ts';
import { inOrder, type OpenCall, type PlacedTurn, type Turn } from './history-order.ts';
import { mediaPart, type Part } from './history-parts.ts';

/** A conversation as it goes to a model. */
export interface History {
  /** What templates render: calls with the arguments that the model wrote. */
  readonly rendered: readonly ChatMessage[];
  /**
   * What servers take that are strict about the shape of a conversation: every call has arguments that are a JSON object, and a result.
   * Made when it is first asked for: most workers get a prompt.
   */
  readonly forwarded: readonly ChatMessage[];
}

/**
 * Reads a conversation whose new turns were checked. What a model wrote or another server put there is data: it is brought to
 * the shape that chats have today, and never refused. Results stand behind the turn that asked for them; what they show
 * follows in the user's own turn.
 * @param isBlind the model takes no media, as far as its card says: what tools show is named in their results, unless the user
 * has shown something, too. @default false
 */
export function readHistory(messages: readonly ChatMessage[], leftOut: LeftOut, isBlind = false): History {
  if (messages.every(isPlain)) return { rendered: messages, forwarded: messages };
  const namesMedia = isBlind && !messages.some(showsMedia);
  const turns = inOrder(messages.map((message, at) => readTurn(message, at, leftOut, namesMedia)));
  let forwarded: readonly ChatMessage[] | undefined;
  return {
    rendered: new HistoryWriter(false).write(turns),
    get forwarded() {
      forwarded ??= new HistoryWriter(true).write(turns);
      return forwarded;
    },
  };
}

/** Nothing of such a message needs a second look. */
function isPlain({ role, content }: ChatMessage): boolean {
  return role === 'system' || role === 'developer' || (role === 'user' && typeof content === 'string');
}

/** Who shows a model pictures knows that it can see. */
function showsMedia({ role, content }: ChatMessage): boolean {
  return role === 'user' && Array.isArray(content) && content.some((part) => mediaPart(part) !== undefined);
}

function readTurn(message: ChatMessage, at: number, leftOut: LeftOut, isBlind: boolean): Turn {
  switch (message.role) {
    case 'assistant':
      return readAssistant(message, at, leftOut);
    case 'tool':
    case 'function':
      return readResult(message, leftOut, isBlind);
    case 'user':
      return { kind: 'other', message: readUser(message, leftOut) };
    default:
      return { kind: 'other', message };
  }
}

/** Told to strict servers where a call has none. */
const NO_RESULT = 'No result was given.';

class HistoryWriter {
  /** For servers that are strict. */
  readonly #isStrict: boolean;
  readonly #messages: ChatMessage[] = [];
  /** What tools have shown, until the user speaks. */
  #media: Part[] = [];
  /** Calls of the last turn, which need a result only if something follows. */
  #unanswered: readonly OpenCall[] = [];

  constructor(isStrict: boolean) {
    this.#isStrict = isStrict;
  }

  write(turns: readonly PlacedTurn[]): readonly ChatMessage[] {
    for (const turn of turns) this.#add(turn);
    this.#showMedia();
    return this.#messages;
  }

  #add(turn: PlacedTurn): void {
    this.#closeCalls();
    if (turn.kind === 'assistant') this.#addAssistant(turn.message, turn.calls);
    else if (turn.kind === 'orphan') this.#addOrphan(turn.result);
    else if (turn.message.role === 'user') this.#addUser(turn.message);
    else this.#addOther(turn.message);
  }

  #addOther(message: ChatMessage): void {
    this.#showMedia();
    this.#messages.push(message);
  }

  #addAssistant(message: ChatMessage, calls: readonly OpenCall[]): void {
    this.#showMedia();
    const turn = this.#isStrict ? withReasoning(message) : message;
    if (calls.length === 0) {
      this.#messages.push(turn);
      return;
    }
    const bodies = calls.map((call) =>
      callBody(call, this.#isStrict ? strictArguments(call.arguments) : call.arguments),
    );
    this.#messages.push({ ...turn, tool_calls: bodies });
    const isAnswered = calls.some(({ result }) => result !== undefined);
    for (const call of calls) {
      if (call.result !== undefined) this.#addResult(call, call.result);
      else if (isAnswered && this.#isStrict) this.#messages.push(noResult(call));
    }
    if (!isAnswered) this.#unanswered = calls;
  }

  #addResult({ id }: OpenCall, { message, media }: ResultTurn): void {
    this.#messages.push(message.tool_call_id === id ? message : { ...message, tool_call_id: id });
    if (media.length > 0) this.#media.push(...media);
  }

  /** Templates show a result that nobody asked for as any other; servers that look for its call would refuse it. */
  #addOrphan({ message, media, given }: ResultTurn): void {
    const id = given ?? 'call_unknown';
    const text = typeof message.content === 'string' ? message.content : textOf(message.content ?? []);
    this.#messages.push(
      this.#isStrict
        ? { role: 'user', content: `Result of tool call ${id}:\n${text}` }
        : { ...message, tool_call_id: id },
    );
    this.#media.push(...media);
  }

  #addUser(message: ChatMessage): void {
    const media = this.#media;
    if (media.length === 0) {
      this.#addOther(message);
      return;
    }
    this.#media = [];
    const said =
      typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : (message.content ?? []);
    this.#addOther({ ...message, content: [...media, ...said] });
  }

  #showMedia(): void {
    if (this.#media.length > 0) this.#addUser({ role: 'user', content: [] });
  }

  #closeCalls(): void {
    if (this.#isStrict) for (const call of this.#unanswered) this.#messages.push(noResult(call));
    this.#unanswered = [];
  }
}

/** Servers read one of two names each. */
function withReasoning(message: ChatMessage): ChatMessage {
  const { reasoning_content: reasoning } = message;
  if (reasoning === undefined) return message;
  return { ...message, reasoning: Array.isArray(reasoning) ? reasoning.join('\n') : reasoning };
}

function callBody({ id, name, extra }: OpenCall, text: string): Part {
  return { ...extra, id, type: 'function', function: { name, arguments: text } };
}

function noResult({ id }: OpenCall): ChatMessage {
  return { role: 'tool', tool_call_id: id, content: NO_RESULT };
}

function textOf(parts: readonly Part[]): string {
  return parts.map(({ text }) => (typeof text === 'string' ? text : '')).join('\n');
}
