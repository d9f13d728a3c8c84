import type { ChatMessage } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { strictArguments } from './call-arguments.ts';
import { type ResultTurn, readAssistant, readResult, readUser } from './history-messages.ts';
import { inOrder, type OpenCall, type PlacedTurn, type Turn } from './history-order.ts';
import type { Part } from './history-parts.ts';

/** A conversation as it goes to a model. */
export interface History {
  /** What templates render: calls with the arguments that the model wrote. */
  readonly rendered: readonly ChatMessage[];
  /** What servers take that are strict about the shape of a conversation: every call has arguments that are a JSON object, and a result. */
  readonly forwarded: readonly ChatMessage[];
}

/**
 * Reads a conversation whose new turns were checked. What a model wrote or another server put there is data: it is brought to
 * the shape that chats have today, and never refused. Results stand behind the turn that asked for them; what they show
 * follows in the user's own turn.
 * @param isBlind the model takes no media: what tools show is named in their results. @default false
 */
export function readHistory(messages: readonly ChatMessage[], leftOut: LeftOut, isBlind = false): History {
  if (messages.every(isPlain)) return { rendered: messages, forwarded: messages };
  const writer = new HistoryWriter();
  for (const turn of inOrder(messages.map((message, at) => readTurn(message, at, leftOut, isBlind)))) writer.add(turn);
  return writer.finish();
}

/** Nothing of such a message needs a second look. */
function isPlain({ role, content }: ChatMessage): boolean {
  return role === 'system' || role === 'developer' || (role === 'user' && typeof content === 'string');
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
  readonly #rendered: ChatMessage[] = [];
  readonly #forwarded: ChatMessage[] = [];
  /** What tools have shown, until the user speaks. */
  #media: Part[] = [];
  /** Calls of the last turn, which need a result only if something follows. */
  #unanswered: readonly OpenCall[] = [];

  add(turn: PlacedTurn): void {
    this.#closeCalls();
    if (turn.kind === 'assistant') this.#addAssistant(turn.message, turn.calls);
    else if (turn.kind === 'orphan') this.#addOrphan(turn.result);
    else if (turn.message.role === 'user') this.#addUser(turn.message);
    else this.#addBoth(turn.message);
  }

  finish(): History {
    this.#showMedia();
    return { rendered: this.#rendered, forwarded: this.#forwarded };
  }

  #addBoth(message: ChatMessage): void {
    this.#showMedia();
    this.#rendered.push(message);
    this.#forwarded.push(message);
  }

  #addAssistant(message: ChatMessage, calls: readonly OpenCall[]): void {
    this.#showMedia();
    const { reasoning_content: reasoning } = message;
    const told = Array.isArray(reasoning) ? reasoning.join('\n') : reasoning;
    // Servers read one of these names each.
    const forwarded = reasoning === undefined ? message : { ...message, reasoning: told };
    if (calls.length === 0) {
      this.#rendered.push(message);
      this.#forwarded.push(forwarded);
      return;
    }
    this.#rendered.push({ ...message, tool_calls: calls.map((call) => callBody(call, call.arguments)) });
    const strict = calls.map((call) => callBody(call, strictArguments(call.arguments)));
    this.#forwarded.push({ ...forwarded, tool_calls: strict });
    const isAnswered = calls.some(({ result }) => result !== undefined);
    for (const call of calls) {
      if (call.result !== undefined) this.#addResult(call, call.result);
      else if (isAnswered) this.#forwarded.push(noResult(call));
    }
    if (!isAnswered) this.#unanswered = calls;
  }

  #addResult({ id }: OpenCall, { message, media }: ResultTurn): void {
    const named = { ...message, tool_call_id: id };
    this.#rendered.push(named);
    this.#forwarded.push(named);
    this.#media.push(...media);
  }

  /** Templates show a result that nobody asked for as any other; servers that look for its call would refuse it. */
  #addOrphan({ message, media, given }: ResultTurn): void {
    const id = given ?? 'call_unknown';
    this.#rendered.push({ ...message, tool_call_id: id });
    const text = typeof message.content === 'string' ? message.content : textOf(message.content ?? []);
    this.#forwarded.push({ role: 'user', content: `Result of tool call ${id}:\n${text}` });
    this.#media.push(...media);
  }

  #addUser(message: ChatMessage): void {
    const media = this.#media;
    if (media.length === 0) {
      this.#addBoth(message);
      return;
    }
    this.#media = [];
    const said =
      typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : (message.content ?? []);
    this.#addBoth({ ...message, content: [...media, ...said] });
  }

  #showMedia(): void {
    if (this.#media.length > 0) this.#addUser({ role: 'user', content: [] });
  }

  #closeCalls(): void {
    for (const call of this.#unanswered) this.#forwarded.push(noResult(call));
    this.#unanswered = [];
  }
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
