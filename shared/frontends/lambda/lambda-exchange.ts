import { ServeError } from '../../errors/index.ts';
import type { BodyIntake, FrameSink, HostExchange } from '../http/index.ts';
import type { LambdaRequest } from './lambda-events.ts';

/** Largest request that Lambda passes on, the event's envelope included. */
export const LAMBDA_BODY_BYTES_MAX = 6 * 1024 * 1024;

/** One event and the place for its answer, as the app sees them. */
export class LambdaExchange implements HostExchange {
  readonly sink: FrameSink;
  readonly deadline: AbortSignal;
  readonly #request: LambdaRequest;

  constructor(request: LambdaRequest, sink: FrameSink, deadline: AbortSignal) {
    this.#request = request;
    this.sink = sink;
    this.deadline = deadline;
  }

  get method(): string {
    return this.#request.method;
  }

  get path(): string {
    return this.#request.path;
  }

  get query(): string {
    return this.#request.query;
  }

  get headerLines(): number {
    return this.#request.headerLines;
  }

  headerNames(): readonly string[] {
    return [...this.#request.headers.keys()];
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name);
  }

  async readBody(intake: BodyIntake): Promise<void> {
    const { body, isBase64 } = this.#request;
    const encoding = isBase64 ? 'base64' : 'utf8';
    // Counted before anything is decoded.
    const sizeBytes = Buffer.byteLength(body, encoding);
    if (sizeBytes > LAMBDA_BODY_BYTES_MAX) {
      const limitMb = LAMBDA_BODY_BYTES_MAX / 1024 / 1024;
      throw new ServeError('request_too_large', `Request body exceeds the limit of ${limitMb} MB`);
    }
    intake.expect(sizeBytes);
    if (sizeBytes > 0) intake.add(Buffer.from(body, encoding));
  }
}
