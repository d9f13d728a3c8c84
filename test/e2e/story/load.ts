import { type ChatAnswer, readChat } from '../../support/index.ts';

const SHORT = { max_tokens: 4, messages: [{ role: 'user', content: 'What are you?' }] };

/** Chats at a time; on a busy machine, clients wait for an answer before they begin another one. */
const AT_ONCE_MAX = 2;

/** Clients that begin short chats at a steady rate. */
export class Load {
  readonly #url: string;
  readonly #model: string;
  readonly #asked: Promise<ChatAnswer>[] = [];
  #timer: NodeJS.Timeout | undefined;
  #open = 0;

  constructor(url: string, model: string) {
    this.#url = url;
    this.#model = model;
  }

  get count(): number {
    return this.#asked.length;
  }

  /** Goes on at another rate. */
  run(perSecond: number): void {
    this.pause();
    this.#timer = setInterval(() => this.#ask(), 1000 / perSecond);
  }

  pause(): void {
    clearInterval(this.#timer);
  }

  /** Resolves with the answers to all requests so far. Rejects if one was refused. */
  answers(): Promise<readonly ChatAnswer[]> {
    return Promise.all(this.#asked);
  }

  #ask(): void {
    if (this.#open >= AT_ONCE_MAX) return;
    this.#open++;
    const answer = readChat(this.#url, { model: this.#model, ...SHORT });
    const ended = (): void => void this.#open--;
    answer.then(ended, ended); // `answers` rejects
    this.#asked.push(answer);
  }
}
