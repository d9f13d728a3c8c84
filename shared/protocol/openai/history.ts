import type { ChatMessage } from '../generation/generation-request.ts';
import type { LeftOut } from '../generation/left-out.ts';
import { strictArguments } from './call-arguments.ts';
import { type ResultTurn, readAssistant, readResult, readUser } from './history-messages.ts';
import { inOrder, type OpenCall, type PlacedTurn, type Turn } from './history-order.ts';
import { mediaPart, type Part } from './history-parts.ts';

/** Conversation in the forms that models receive. */
export interface History {
  /** Messages for templates: calls have the arguments that the model wrote. */
  readonly rendered: readonly ChatMessage[];
  /**
   * Messages for servers with strict rules about conversations: every call has a JSON object as arguments, and a
   * result. Built on first access, because most workers get a prompt.
   */
  readonly forwarded: readonly ChatMessage[];
}

/**
 * Reads a conversation whose new turns were checked. Content from a model or another server is data: it is converted to
 * today's format of chats, and never refused. Results come after the turn that asked for them; their media follow in a
 * user's message.
 * @param isBlind whether the model takes no media, according to its card: then results name their media, unless the
 * user has sent media too. @default false
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

/** Returns whether a message needs no conversion. */
function isPlain({ role, content }: ChatMessage): boolean {
  return role === 'system' || role === 'developer' || (role === 'user' && typeof content === 'string');
}

/** Returns whether a message has media. A user who sends media expects the model to read them. */
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

/** Result that strict servers get for a call without one. */
const NO_RESULT = 'No result was given.';

class HistoryWriter {
  /** Whether the server is strict. */
  readonly #isStrict: boolean;
  readonly #messages: ChatMessage[] = [];
  /** Media from tools, held until the user's next message. */
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

  /** Adds a result without a call. Templates show it like any other; servers that look for its call would refuse it. */
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

/** Adds reasoning under both names: a server reads one of the two. */
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
