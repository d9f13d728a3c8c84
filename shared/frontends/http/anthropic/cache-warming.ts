import type { ServeError } from '../../../errors/index.ts';
import type { GenerationRequest, Usage } from '../../../protocol/index.ts';
import type { Inference } from '../serve-inference.ts';
import { WholeSink } from '../sinks/dialect-sink.ts';
import type { WireNames } from '../sinks/response-names.ts';
import { sendObject } from '../sinks/send.ts';
import {
  anthropicRequestId,
  type MessageStop,
  messageBody,
  messageUsage,
  refuseMessages,
  requestIdHeader,
} from './wire.ts';

const AT_LIMIT: MessageStop = Object.freeze({ stop_reason: 'max_tokens', stop_sequence: null });

/**
 * Answers a request with `max_tokens: 0`, which only fills the prompt cache: a message without content. The worker
 * generates one token all the same, which the client neither reads nor finds in its usage.
 */
export class CacheWarming extends WholeSink {
  readonly #names: WireNames;
  readonly #requestId: string;
  protected hasOutput = false;

  constructor(inference: Inference, request: GenerationRequest, names: WireNames) {
    super(inference);
    this.#names = names;
    this.#requestId = anthropicRequestId(request.id);
  }

  override text(): void {
    this.hasOutput = true;
  }

  override reasoning(): void {
    this.hasOutput = true;
  }

  override toolCall(): void {
    this.hasOutput = true;
  }

  override body(): void {
    this.hasOutput = true;
  }

  protected write(usage: Usage): Promise<void> | undefined {
    const body = messageBody(this.#names, [], AT_LIMIT, messageUsage({ ...usage, completionTokens: 0 }));
    return sendObject(this.inference, body, [], requestIdHeader(this.#requestId));
  }

  protected override tell(error: ServeError): void {
    refuseMessages(this.inference, error, this.#requestId);
  }
}
