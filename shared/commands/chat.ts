import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { reasonOf } from '../errors/index.ts';
import type { Frontend } from '../frontends/index.ts';
import type { RoutableModel } from '../pipeline/index.ts';

/**
 * `--interactive`: a chat in this terminal with the first model that takes chats, once there is one. Resolves when the
 * user leaves or `stopped` resolves.
 * @param path the frontend's route of chat completions
 * @param chatting the chat aborts it once it handles Ctrl-C, which from then on cancels an answer
 */
export async function chatWith(
  frontend: Frontend,
  path: string,
  stopped: Promise<unknown>,
  chatting: AbortController,
): Promise<void> {
  const ending = new AbortController();
  void stopped.then((reason) => ending.abort(new Error(reasonOf(reason))));
  const model = await firstChatModel(frontend, ending.signal);
  if (model === undefined) return;
  chatting.abort();
  await chatInTerminal(chatThrough(frontend, path, model.name), introduce(model), {
    input: process.stdin,
    output: process.stdout,
    signal: ending.signal,
    isPlain: Boolean(process.env.NO_COLOR),
    onInterrupt(listener) {
      process.on('SIGINT', listener);
      return () => void process.off('SIGINT', listener);
    },
  });
}

/** Returns how the chat introduces a model. It names a mock as such, because a mock's answers mean nothing. */
export function introduce({ name, card }: Pick<RoutableModel, 'name' | 'card'>): string {
  const isMock = card.runtime_config.runtime_data?.engine === 'mocker';
  return isMock ? `${name}, a mock that recites one text for every question. A real engine: --engine` : name;
}

/** Returns the first model that takes chats, or undefined if the chat ends before there is one. */
async function firstChatModel({ models }: Frontend, signal: AbortSignal): Promise<RoutableModel | undefined> {
  const find = () => models.list().find(({ card, workers }) => card.model_type.includes('Chat') && workers.length > 0);
  if (find() === undefined) process.stderr.write('Waiting for a worker that serves a chat model; Ctrl-C leaves.\n');
  try {
    await models.until(() => find() !== undefined, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
    return undefined;
  }
  return find();
}

interface ChatTerminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable & { readonly isTTY?: boolean };
  /** Ends the chat from outside. */
  readonly signal: AbortSignal;
  /** Registers a listener for Ctrl-C, if the terminal does not deliver it as a key. */
  onInterrupt(listener: () => void): () => void;
  /** Whether to write plain text even on a terminal, for `NO_COLOR` and the like. @default false */
  readonly isPlain?: boolean;
}

/** Most messages that a request carries. A longer chat forgets its oldest ones. */
const MESSAGES_MAX = 200;
const HISTORY_LINES_MAX = 500;
const [BOLD, DIM, PLAIN] = ['\u001b[1m', '\u001b[2m', '\u001b[0m'];

/**
 * Runs a text chat. Each line is a question, and the chat writes the answer as it arrives. Ctrl-C cancels the answer
 * under way. Ctrl-D, `/quit` or the end of the input leaves. Arrow keys bring back earlier lines. A pipe gets only the
 * answers, without thoughts, prompts and colours.
 */
export async function chatInTerminal(chat: Chat, model: string, terminal: ChatTerminal): Promise<void> {
  const { input, output, signal, isPlain = false } = terminal;
  const isTerminal = input.isTTY === true && output.isTTY === true;
  const isPainted = isTerminal && !isPlain;
  const lines = createInterface({
    input,
    output,
    terminal: isTerminal,
    historySize: HISTORY_LINES_MAX,
    prompt: isTerminal ? (isPainted ? `${BOLD}> ${PLAIN}` : '> ') : '',
  });
  const writer = new AnswerWriter(chat, output, isTerminal ? (isPainted ? DIM : '') : undefined);
  const onInterrupt = (): void => {
    if (writer.cancel()) return;
    if (isTerminal) {
      output.write('\n(Ctrl-D or /quit leaves)\n');
      lines.prompt();
    } else lines.close();
  };
  const leave = (): void => {
    writer.cancel();
    lines.close();
  };
  lines.on('SIGINT', onInterrupt);
  const forget = terminal.onInterrupt(onInterrupt);
  signal.addEventListener('abort', leave, { once: true });
  if (isTerminal) {
    lines.once('close', () => writer.cancel()); // Ctrl-D in the middle of an answer; a pipe has merely ended
    output.write(`Chat with ${model}.\n${KEYS}\n`);
  }
  try {
    lines.prompt();
    for await (const line of lines) {
      const word = line.trim().toLowerCase();
      if (LEAVING.includes(word)) break;
      if (isTerminal && COMMAND.test(word)) output.write(word === '/help' ? HELP : `${word} is not a command. ${HELP}`);
      else if (word !== '') await writer.answer(line);
      if (signal.aborted) break;
      lines.prompt();
    }
    if (isTerminal) output.write('\n');
  } finally {
    signal.removeEventListener('abort', leave);
    forget();
    lines.close();
  }
}

const LEAVING: readonly string[] = ['/quit', '/exit', '/bye', '/q'];
/** A command of the chat: one word after a slash. A path, or a line with more words, goes to the model. */
const COMMAND = /^\/[a-z?]+$/;
const KEYS = 'Ctrl-C cancels an answer, Ctrl-D or /quit leaves.';
const HELP = `${KEYS} Arrow keys bring back earlier lines; every other line is a question.\n`;

/** Writes answers, one after the other, and remembers the chat. */
class AnswerWriter {
  readonly #chat: Chat;
  readonly #output: Writable;
  /** Terminal code that thoughts are written in; undefined = the chat does not show them. */
  readonly #thoughtCode: string | undefined;
  readonly #messages: ChatMessage[] = [];
  #running: AbortController | undefined;

  constructor(chat: Chat, output: Writable, thoughtCode: string | undefined) {
    this.#chat = chat;
    this.#output = output;
    this.#thoughtCode = thoughtCode;
  }

  /** Ends the answer under way. @returns false if there is none */
  cancel(): boolean {
    this.#running?.abort();
    return this.#running !== undefined;
  }

  async answer(question: string): Promise<void> {
    const running = new AbortController();
    this.#running = running;
    const messages: readonly ChatMessage[] = [...this.#messages, { role: 'user', content: question }];
    let answer = '';
    try {
      for await (const piece of this.#chat(messages, running.signal)) {
        if (running.signal.aborted) break;
        if (piece.kind === 'answer') answer += piece.text;
        this.#output.write(piece.kind === 'answer' ? piece.text : this.#paintThought(piece.text));
      }
    } catch (thrown) {
      if (!running.signal.aborted) this.#output.write(`error: ${reasonOf(thrown)}`);
    }
    this.#output.write(running.signal.aborted ? ' (cancelled)\n' : '\n');
    this.#running = undefined;
    if (answer === '') return; // a question without an answer does not become part of the chat
    this.#messages.push({ role: 'user', content: question }, { role: 'assistant', content: answer });
    this.#messages.splice(0, Math.max(0, this.#messages.length - MESSAGES_MAX));
  }

  #paintThought(text: string): string {
    if (this.#thoughtCode === undefined) return '';
    return this.#thoughtCode === '' ? text : `${this.#thoughtCode}${text}${PLAIN}`;
  }
}

export interface ChatMessage {
  readonly role: 'user' | 'assistant';
  readonly content: string;
}

/** A piece of an answer. */
export interface ChatPiece {
  readonly kind: 'answer' | 'thought';
  readonly text: string;
}

/** Answers a chat. Rejects with an Error of one line if there is no answer; ends without one if `signal` aborts. */
export type Chat = (messages: readonly ChatMessage[], signal: AbortSignal) => AsyncIterable<ChatPiece>;

/** Fields that the chat reads in a chunk of a stream, and in an error. */
interface Chunk {
  readonly choices?: readonly {
    readonly delta?: { readonly content?: string | null; readonly reasoning_content?: string | null };
  }[];
  readonly error?: { readonly message?: string };
}

/** Chats with `model` through the frontend's own route, without a socket. */
function chatThrough(frontend: Pick<Frontend, 'appForOperator'>, path: string, model: string): Chat {
  const app = frontend.appForOperator();
  return async function* (messages, signal) {
    const response = await app.fetch(
      new Request(`http://localhost${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ model, messages, stream: true }),
        signal,
      }),
    );
    if (!response.ok) throw failureOf((await response.json()) as Chunk);
    for await (const chunk of readChunks(response, signal)) {
      if (chunk.error !== undefined) throw failureOf(chunk);
      const { content, reasoning_content: thought } = chunk.choices?.[0]?.delta ?? {};
      if (thought) yield { kind: 'thought', text: thought };
      if (content) yield { kind: 'answer', text: content };
    }
  };
}

function failureOf({ error }: Chunk): Error {
  return new Error(error?.message ?? 'there is no answer');
}

/** Yields the JSON of each event up to `[DONE]`. */
async function* readChunks(response: Response, signal: AbortSignal): AsyncGenerator<Chunk> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const leave = (): void => void reader?.cancel().catch(() => undefined); // it has ended already
  signal.addEventListener('abort', leave, { once: true });
  try {
    let text = '';
    for (;;) {
      const read = await reader?.read();
      if (read === undefined || read.done) return;
      const events = (text + read.value).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) {
        const data = /^data: (.*)$/m.exec(event)?.[1];
        if (data === '[DONE]') return;
        if (data !== undefined) yield JSON.parse(data) as Chunk;
      }
    }
  } finally {
    signal.removeEventListener('abort', leave);
    leave();
  }
}
