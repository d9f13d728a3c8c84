import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { reasonOf } from '../../errors/index.ts';
import type { Chat, ChatMessage } from './turns.ts';

export interface ChatTerminal {
  readonly input: Readable & { readonly isTTY?: boolean };
  readonly output: Writable & { readonly isTTY?: boolean };
  /** Ends the chat from outside. */
  readonly signal: AbortSignal;
  /** Hears Ctrl-C where the terminal does not hand it over as a key. */
  onInterrupt(listener: () => void): () => void;
  /** `NO_COLOR` and the like: plain text even on a terminal. @default false */
  readonly isPlain?: boolean;
}

/** Messages that are sent along; of a longer chat the oldest are forgotten. */
const MESSAGES_MAX = 200;
const HISTORY_LINES_MAX = 500;
const [BOLD, DIM, PLAIN] = ['\u001b[1m', '\u001b[2m', '\u001b[0m'];

/**
 * A text chat: a line is a question, the answer is written as it comes. Ctrl-C cancels the answer that is being written,
 * Ctrl-D or the end of the input leaves, arrow keys bring back earlier lines. A pipe gets answers alone, without thoughts,
 * prompts and colours.
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
      output.write('\n(Ctrl-D leaves)\n');
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
    output.write(`Chat with ${model}.\nCtrl-C cancels an answer, Ctrl-D leaves.\n`);
  }
  try {
    lines.prompt();
    for await (const line of lines) {
      if (line.trim() !== '') await writer.answer(line);
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

/** Writes answers, one after the other, and remembers the chat. */
class AnswerWriter {
  readonly #chat: Chat;
  readonly #output: Writable;
  /** How thoughts are painted; undefined = they are not shown. */
  readonly #thoughtCode: string | undefined;
  readonly #messages: ChatMessage[] = [];
  #running: AbortController | undefined;

  constructor(chat: Chat, output: Writable, thoughtCode: string | undefined) {
    this.#chat = chat;
    this.#output = output;
    this.#thoughtCode = thoughtCode;
  }

  /** Ends the answer under way; false when there is none. */
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
    if (answer === '') return; // a question without an answer is no part of the chat
    this.#messages.push({ role: 'user', content: question }, { role: 'assistant', content: answer });
    this.#messages.splice(0, Math.max(0, this.#messages.length - MESSAGES_MAX));
  }

  #paintThought(text: string): string {
    if (this.#thoughtCode === undefined) return '';
    return this.#thoughtCode === '' ? text : `${this.#thoughtCode}${text}${PLAIN}`;
  }
}
