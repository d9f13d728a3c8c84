import type { Msg } from '@nats-io/nats-core';
import type { NatsMessage } from './types.ts';

/** The library's message in our terms; decodes only what is asked for. */
export class ReceivedMessage implements NatsMessage {
  readonly #message: Msg;

  constructor(message: Msg) {
    this.#message = message;
  }

  get subject(): string {
    return this.#message.subject;
  }

  get reply(): string {
    return this.#message.reply ?? '';
  }

  get data(): Uint8Array {
    return this.#message.data;
  }

  get status(): number | undefined {
    const code = this.#message.headers?.code ?? 0;
    return code === 0 ? undefined : code;
  }

  get statusText(): string {
    return this.#message.headers?.description ?? '';
  }
}
